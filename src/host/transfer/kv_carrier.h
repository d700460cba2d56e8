/* SPDX-License-Identifier: Apache-2.0
 * What a unit says of its KV blocks' travels, done: KV_EXPECT, KV_PUSH and KV_CANCEL become calls
 * of a KV transport (host/transfer/kv_transport.h) on one rank's pages, and a ticket's end becomes
 * KV_DONE. serving/cache/transfer_orders.h says which slice leaves when. What arrives counts,
 * whatever becomes of step and transfer. What is said of a transfer after its KV_DONE is too late
 * and left out. Lives in the event loop's thread; the transport has one of its own.
 */
#ifndef HOST_TRANSFER_KV_CARRIER_H
#define HOST_TRANSFER_KV_CARRIER_H

#include "contract/record.h"
#include "host/engine/step_progress.h"
#include "host/transfer/kv_transport.h"

struct event_base;
struct kv_carrier;

struct kv_carrier_options {
    struct kv_transport *transport; /* over these pages; both must outlive the carrier */
    const struct kv_pages *pages;
    struct step_progress *progress; /* of the engine that writes them; NULL: blocks that a step is
                                     * making leave when it is done */
    int64_t transfer_ns_max;        /* a ticket ends so long after it was opened, at the latest */
    void *context;
    void (*say)(void *context, const struct record *record); /* KV_DONE */
};

enum status kv_carrier_open(const struct kv_carrier_options *options, struct event_base *base,
                            struct kv_carrier **carrier_out, struct error *error) MUST_USE;

/* Forgets all transfers; says nothing more. The transport is the caller's to close. */
void kv_carrier_close(struct kv_carrier *carrier);

/* KV_EXPECT, KV_PUSH or KV_CANCEL. */
void kv_carrier_take(struct kv_carrier *carrier, const struct record *record);

/* Transfers under way. */
uint32_t kv_carrier_count(const struct kv_carrier *carrier);

#endif
