/* SPDX-License-Identifier: Apache-2.0
 * Messages that arrive before their ticket is known here. They are kept for a short time, in
 * bounded memory.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "host/transfer/kv_transport_state.h"

#define EARLY_BYTES_MAX ((size_t)64 << 20) /* limit for all links together */

static const struct transfer_grant *grant_of(const struct early *early) {
    return early->message.kind == KV_WIRE_SLICE ? &early->message.slice.grant
                                                : &early->message.finish.grant;
}

bool kv_transport_early_keep(struct link *link, const struct kv_wire_message *message, void *fetch,
                             const void *rows, size_t bytes) {
    struct kv_transport *transport = link->transport;
    struct early early = {
        .next = transport->early,
        .link = link,
        .message = *message,
        .fetch = fetch,
        .bytes = fetch ? 0 : bytes,
    };
    bool room = transport->early_bytes + sizeof early + early.bytes <= EARLY_BYTES_MAX;
    pthread_mutex_lock(&transport->lock);
    bool keep = room && !transport->finishing &&
                !transfer_ledger_knows(&transport->ledger, *grant_of(&early));
    transport->counters.early += keep;
    pthread_mutex_unlock(&transport->lock);
    struct early *copy = keep ? malloc(sizeof *copy + early.bytes) : NULL;
    if (!copy) return false;
    early.until_ns = clock_now_ns() + transport->options.early_ns_max;
    *copy = early;
    if (rows) memcpy(copy->rows, rows, early.bytes);
    transport->early = copy;
    transport->early_bytes += sizeof *copy + copy->bytes;
    return true;
}

/* Removes a message from the list. */
static struct early *take_early(struct kv_transport *transport, struct early **at) {
    struct early *early = *at;
    *at = early->next;
    transport->early_bytes -= sizeof *early + early->bytes;
    return early;
}

void kv_transport_early_free(struct kv_transport *transport, struct early *early) {
    if (early->fetch) ucp_am_data_release(transport->worker, early->fetch);
    free(early);
}

void kv_transport_early_forget(struct link *link, const struct transfer_grant *grant) {
    struct kv_transport *transport = link->transport;
    for (struct early **at = &transport->early, *early; (early = *at);) {
        if (early->link == link && (!grant || transfer_grant_equal(*grant_of(early), *grant)))
            kv_transport_early_free(transport, take_early(transport, at));
        else
            at = &early->next;
    }
}

struct early *kv_transport_early_due(struct kv_transport *transport, int64_t now_ns,
                                     int64_t *wake_out) {
    struct early *due = NULL;
    if (!transport->early) return NULL;
    pthread_mutex_lock(&transport->lock);
    for (struct early **at = &transport->early, *early; (early = *at);) {
        if (now_ns < early->until_ns &&
            !transfer_ledger_knows(&transport->ledger, *grant_of(early))) {
            if (early->until_ns < *wake_out) *wake_out = early->until_ns;
            at = &early->next;
            continue;
        }
        take_early(transport, at);
        early->next = due;
        due = early;
    }
    pthread_mutex_unlock(&transport->lock);
    return due;
}
