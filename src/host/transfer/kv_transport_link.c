/* SPDX-License-Identifier: Apache-2.0
 * Connections (links) of a KV transport, and sending. A sender connects when it has a ticket for an
 * address. If that fails, it retries a few times with exponential backoff before its tickets end.
 * If an open link breaks, all its tickets end immediately, and the next offer opens a new link.
 *
 * Closing a link gets memory back from UCX: a forced close completes all messages in progress with
 * an error, after the sockets are closed. Only then the ledger is notified that no writes are left.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/checksum.h"
#include "base/format.h"
#include "host/transfer/kv_transport_state.h"

#define WINDOW_BYTES ((uint64_t)8 << 20) /* limit of slices that UCX is sending, per link */
#define WINDOW_MESSAGES 64
#define TURN_MESSAGES 16           /* messages sent on a link before the next link's turn */
#define CHARGE_MIN 4096            /* a queued slice counts as at least this many bytes */
#define RETRY_NS INT64_C(50000000) /* delay of the second attempt; doubled for each later one */
#define MS INT64_C(1000000)
#define CLOSE_LOOK_NS (10 * MS)

static uint64_t charge_of(const struct outgoing *message) {
    if (message->slot == TRANSFER_NONE) return 0;
    return message->bytes > CHARGE_MIN ? message->bytes : CHARGE_MIN;
}

void kv_transport_link_break(struct link *link, const char *why) {
    if (link->broken || link->state == LINK_CLOSING || link->state == LINK_FREE) return;
    link->broken = true;
    format_text(link->why, sizeof link->why, "%s", why);
}

void kv_transport_link_opened(struct link *link) {
    struct kv_transport *transport = link->transport;
    pthread_mutex_lock(&transport->lock);
    link->state = LINK_OPEN;
    transport->counters.connects += link->ours;
    pthread_mutex_unlock(&transport->lock);
}

/* ---- table of links (called with the lock held) ---- */

struct link *kv_transport_link_of(struct kv_transport *transport, uint64_t id) {
    for (uint32_t i = 0; i < KV_LINKS_MAX; i++)
        if (transport->links[i].state != LINK_FREE && transport->links[i].id == id)
            return &transport->links[i];
    return NULL;
}

static struct link *claim_link(struct kv_transport *transport, enum link_state state, bool ours) {
    for (uint32_t i = 0; i < KV_LINKS_MAX; i++) {
        struct link *link = &transport->links[i];
        if (link->state != LINK_FREE) continue;
        *link = (struct link){
            .transport = transport, .state = state, .ours = ours, .id = ++transport->link_ids};
        transport->counters.links++;
        return link;
    }
    return NULL;
}

static bool parse_port(const char *text, uint16_t *port_out) {
    char *end;
    unsigned long port = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || port == 0 || port > UINT16_MAX) return false;
    *port_out = htons((uint16_t)port);
    return true;
}

/* Parses "127.0.0.1:4711" or "[::1]:4711". */
static bool parse_address(const char *text, struct link *link) {
    char host[KV_ADDRESS_BYTES];
    const char *colon = strrchr(text, ':');
    if (!colon || strlen(text) >= KV_ADDRESS_BYTES) return false;
    size_t count = (size_t)(colon - text);
    struct sockaddr_in *four = (void *)&link->socket_address;
    struct sockaddr_in6 *six = (void *)&link->socket_address;
    memset(&link->socket_address, 0, sizeof link->socket_address);
    memcpy(link->address, text, strlen(text) + 1);
    if (count >= 2 && text[0] == '[' && text[count - 1] == ']') {
        memcpy(host, text + 1, count - 2);
        host[count - 2] = 0;
        link->socket_address_bytes = sizeof *six;
        six->sin6_family = AF_INET6;
        return parse_port(colon + 1, &six->sin6_port) &&
               inet_pton(AF_INET6, host, &six->sin6_addr) == 1;
    }
    memcpy(host, text, count);
    host[count] = 0;
    link->socket_address_bytes = sizeof *four;
    four->sin_family = AF_INET;
    return parse_port(colon + 1, &four->sin_port) && inet_pton(AF_INET, host, &four->sin_addr) == 1;
}

struct link *kv_transport_link_to(struct kv_transport *transport, const char *address,
                                  enum status *status_out, struct error *error) {
    struct link parsed;
    if (!parse_address(address, &parsed)) {
        *status_out = error_set(error, STATUS_INVALID,
                                "'%.80s' is not a transport's address; expected digits and a port, "
                                "as 10.0.0.7:4711 or [fd00::7]:4711",
                                address);
        return NULL;
    }
    for (uint32_t i = 0; i < KV_LINKS_MAX; i++) {
        struct link *link = &transport->links[i];
        if (link->ours &&
            (link->state == LINK_WANTED || link->state == LINK_GREETING ||
             link->state == LINK_OPEN || (link->state == LINK_CLOSING && link->again)) &&
            !strcmp(link->address, address))
            return link;
    }
    struct link *link = claim_link(transport, LINK_WANTED, true);
    if (!link) {
        *status_out = error_set(error, STATUS_FULL, "all %u KV connections are in use",
                                (unsigned)KV_LINKS_MAX);
        return NULL;
    }
    memcpy(link->address, parsed.address, sizeof link->address);
    link->socket_address = parsed.socket_address;
    link->socket_address_bytes = parsed.socket_address_bytes;
    return link;
}

bool kv_transport_link_put(struct kv_transport *transport, struct link *link,
                           const struct outgoing *message, bool first) {
    struct outgoing *copy = malloc(sizeof *copy);
    if (!copy) return false;
    *copy = *message;
    copy->link = link;
    copy->next = first ? link->first : NULL;
    if (!link->first)
        link->first = link->last = copy;
    else if (first)
        link->first = copy;
    else
        link->last = link->last->next = copy;
    transport->counters.queued_bytes += charge_of(copy);
    return true;
}

/* Frees a message that was sent or will not be. Its rows are no longer used. */
static void let_go(struct kv_transport *transport, struct outgoing *message) {
    if (message->slot != TRANSFER_NONE) {
        transport->counters.queued_bytes -= charge_of(message);
        transfer_ledger_release(&transport->ledger, message->slot);
        transport->announced |= transport->starved;
        transport->starved = false;
    }
    free(message);
}

static bool is_stale(struct kv_transport *transport, const struct outgoing *message) {
    return message->slot != TRANSFER_NONE &&
           !transfer_ledger_is_open(&transport->ledger, message->slot);
}

/* Drops queued messages: all, or only slices of tickets that have ended. */
static void kv_transport_link_prune(struct kv_transport *transport, struct link *link, bool all) {
    struct outgoing *kept = NULL;
    for (struct outgoing **at = &link->first, *message; (message = *at);) {
        if (all || is_stale(transport, message)) {
            *at = message->next;
            let_go(transport, message);
        } else {
            kept = message;
            at = &message->next;
        }
    }
    link->last = kept;
}

/* ---- sending ---- */

static void kv_transport_link_note_sent(void *request, ucs_status_t status, void *argument) {
    struct outgoing *message = argument;
    struct kv_transport *transport = message->link->transport;
    message->status = status;
    message->next = transport->sent;
    transport->sent = message;
    if (request) ucp_request_free(request);
}

static bool in_pages(const struct kv_transport *transport, const void *rows) {
    uintptr_t start = (uintptr_t)transport->pages.memory, at = (uintptr_t)rows;
    return transport->memory && at >= start && at < start + transport->pages.mapped_bytes;
}

static void kv_transport_link_submit(struct link *link, struct outgoing *message) {
    struct kv_transport *transport = link->transport;
    bool fetched = message->bytes >= transport->options.fetch_bytes_min;
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .cb.send = kv_transport_link_note_sent,
        .user_data = message,
        .flags =
            UCP_AM_SEND_FLAG_REPLY | (fetched ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER),
    };
    if (fetched && in_pages(transport, message->rows)) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = transport->memory;
    }
    if (message->kind == KV_WIRE_SLICE)
        message->header.slice.checksum = checksum_of(message->rows, message->bytes);
    message->link = link;
    link->sending++;
    link->flying_bytes += message->bytes;
    ucs_status_ptr_t request = ucp_am_send_nbx(link->endpoint, message->kind, &message->header,
                                               kv_transport_wire_bytes(message->kind),
                                               message->rows, message->bytes, &param);
    if (!UCS_PTR_IS_PTR(request))
        kv_transport_link_note_sent(NULL, UCS_PTR_STATUS(request), message);
}

void kv_transport_link_send_now(struct link *link, const struct outgoing *message) {
    struct outgoing *copy = malloc(sizeof *copy);
    if (!copy) {
        kv_transport_link_break(link, "no memory for a message");
        return;
    }
    *copy = *message;
    kv_transport_link_submit(link, copy); /* freed by tend_sent. NOLINTNEXTLINE(clang-analyzer-*) */
}

static bool tend_sent(struct kv_transport *transport) {
    struct outgoing *message = transport->sent;
    if (!message) return false;
    transport->sent = NULL;
    pthread_mutex_lock(&transport->lock);
    for (struct outgoing *next; message; message = next) {
        struct link *link = message->link;
        next = message->next;
        link->sending--;
        link->flying_bytes -= message->bytes;
        if (message->status != UCS_OK)
            kv_transport_link_break(link, ucs_status_string(message->status));
        else
            transport->counters.slice_bytes[TRANSFER_OUT] += message->bytes;
        let_go(transport, message);
    }
    pthread_mutex_unlock(&transport->lock);
    return true;
}

/* Removes the next message that may be sent now from the queue. Returns NULL if there is none. */
static struct outgoing *next_message(struct kv_transport *transport, struct link *link,
                                     int64_t now_ns, int64_t *wake_out) {
    struct outgoing *message;
    pthread_mutex_lock(&transport->lock);
    while ((message = link->first)) {
        bool stale = is_stale(transport, message);
        bool slice = message->kind == KV_WIRE_SLICE;
        if (!stale && slice &&
            (link->flying_bytes >= WINDOW_BYTES || link->sending >= WINDOW_MESSAGES))
            message = NULL;
        else if (!stale && slice && now_ns < transport->send_at_ns) {
            if (transport->send_at_ns < *wake_out) *wake_out = transport->send_at_ns;
            message = NULL;
        }
        if (!message) break;
        link->first = message->next;
        if (!stale) break;
        let_go(transport, message);
    }
    pthread_mutex_unlock(&transport->lock);
    return message;
}

/* Applies the rate limit bytes_per_second. After a pause, a burst of 2 ms' worth is allowed. */
static void pace(struct kv_transport *transport, uint64_t bytes, int64_t now_ns) {
    uint64_t rate = transport->options.bytes_per_second;
    if (rate == 0) return;
    if (transport->send_at_ns < now_ns - 2 * MS) transport->send_at_ns = now_ns - 2 * MS;
    transport->send_at_ns += (int64_t)((double)bytes * 1e9 / (double)rate);
}

static bool send_some(struct link *link, int64_t now_ns, int64_t *wake_out) {
    uint32_t count = 0;
    for (struct outgoing *message;
         count < TURN_MESSAGES && !link->broken &&
         (message = next_message(link->transport, link, now_ns, wake_out));
         count++) {
        pace(link->transport, message->bytes, now_ns);
        kv_transport_link_submit(link, message);
    }
    return count > 0;
}

/* ---- connecting and closing ---- */

static void kv_transport_link_note_failure(void *argument, ucp_ep_h endpoint, ucs_status_t status) {
    struct link *link = argument;
    if (link->endpoint != endpoint && link->endpoint) return;
    kv_transport_link_break(link, ucs_status_string(status));
}

static ucp_ep_params_t endpoint_params(struct link *link) {
    return (ucp_ep_params_t){
        .field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = kv_transport_link_note_failure, .arg = link},
    };
}

static void kv_transport_link_greet(struct link *link) {
    struct kv_transport *transport = link->transport;
    struct outgoing hello = {
        .kind = KV_WIRE_HELLO, .slot = TRANSFER_NONE, .header.hello = transport->hello};
    kv_transport_link_send_now(link, &hello);
}

static void connect_link(struct link *link, int64_t now_ns) {
    struct kv_transport *transport = link->transport;
    ucp_ep_params_t params = endpoint_params(link);
    params.field_mask |= UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr.addr = (const struct sockaddr *)&link->socket_address;
    params.sockaddr.addrlen = link->socket_address_bytes;
    link->attempts++;
    link->broken = false;
    link->endpoint = NULL;
    pthread_mutex_lock(&transport->lock);
    link->state = LINK_GREETING;
    pthread_mutex_unlock(&transport->lock);
    link->wake_ns = now_ns + transport->options.connect_ns_max;
    ucs_status_t status = ucp_ep_create(transport->worker, &params, &link->endpoint);
    if (status == UCS_OK) {
        kv_transport_link_greet(link);
        return;
    }
    link->endpoint = NULL;
    kv_transport_link_break(link, ucs_status_string(status));
}

void kv_transport_link_accept(ucp_conn_request_h request, void *argument) {
    struct kv_transport *transport = argument;
    pthread_mutex_lock(&transport->lock);
    struct link *link = transport->finishing ? NULL : claim_link(transport, LINK_GREETING, false);
    pthread_mutex_unlock(&transport->lock);
    if (!link) {
        ucp_listener_reject(transport->listener, request);
        return;
    }
    ucp_ep_params_t params = endpoint_params(link);
    params.field_mask |= UCP_EP_PARAM_FIELD_CONN_REQUEST;
    params.conn_request = request;
    check(transport->active_count < KV_LINKS_MAX);
    transport->active[transport->active_count++] = link;
    link->wake_ns = INT64_MAX; /* set at the next tend */
    ucs_status_t status = ucp_ep_create(transport->worker, &params, &link->endpoint);
    if (status == UCS_OK) return;
    link->endpoint = NULL;
    kv_transport_link_break(link, ucs_status_string(status));
}

/* Writes the reason of a closed link, which is reported with the ends of its tickets. */
static void kv_transport_link_explain(struct link *link, char *reason) {
    if (link->refused)
        format_text(reason, TRANSFER_REASON_BYTES, "%s", link->why);
    else if (link->ours && link->state == LINK_GREETING)
        format_text(reason, TRANSFER_REASON_BYTES, "cannot connect to %s in %u attempts: %s",
                    link->address, link->attempts, link->why);
    else
        format_text(reason, TRANSFER_REASON_BYTES, "the connection%s%s broke: %s",
                    link->ours ? " to " : "", link->address, link->why);
}

static void kv_transport_link_close_link(struct link *link, int64_t now_ns) {
    struct kv_transport *transport = link->transport;
    bool greeting = link->state == LINK_GREETING;
    char reason[TRANSFER_REASON_BYTES];
    kv_transport_link_explain(link, reason);
    pthread_mutex_lock(&transport->lock);
    link->again = link->ours && greeting && !link->refused && !transport->finishing &&
                  link->attempts < transport->options.connect_attempts;
    link->state = LINK_CLOSING;
    if (link->again) {
        link->wake_ns = now_ns + (RETRY_NS << (link->attempts - 1));
    } else {
        transfer_ledger_end_peer(&transport->ledger, link->id,
                                 link->refused ? TRANSFER_REFUSED : TRANSFER_PEER_LOST, reason);
        kv_transport_link_prune(transport, link, true);
        if (greeting)
            transport->counters.connects_failed++;
        else
            transport->counters.links_lost++;
    }
    pthread_mutex_unlock(&transport->lock);
    kv_transport_early_forget(link, NULL);
    if (!link->endpoint) return;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_EP_CLOSE_FLAG_FORCE};
    link->close_request = ucp_ep_close_nbx(link->endpoint, &param);
    link->endpoint = NULL;
}

/* Releases a closing link once UCX has ended all its messages. Returns false until then. */
static bool bury_link(struct link *link) {
    struct kv_transport *transport = link->transport;
    if (UCS_PTR_IS_PTR(link->close_request)) {
        if (ucp_request_check_status(link->close_request) == UCS_INPROGRESS) return false;
        ucp_request_free(link->close_request);
    }
    link->close_request = NULL;
    if (link->sending > 0 || link->receiving > 0) return false;
    pthread_mutex_lock(&transport->lock);
    link->broken = false;
    link->state = link->again ? LINK_WANTED : LINK_FREE;
    link->again = false;
    if (link->state == LINK_FREE) transport->counters.links--;
    pthread_mutex_unlock(&transport->lock);
    return true;
}

static bool tend_link(struct link *link, int64_t now_ns, int64_t *wake_out) {
    int64_t connect_ns_max = link->transport->options.connect_ns_max;
    if (link->broken && link->state != LINK_CLOSING) {
        kv_transport_link_close_link(link, now_ns);
        return true;
    }
    switch (link->state) {
    case LINK_WANTED:
        if (now_ns < link->wake_ns) break;
        connect_link(link, now_ns);
        return true;
    case LINK_GREETING:
        if (link->wake_ns == INT64_MAX) link->wake_ns = now_ns + connect_ns_max;
        if (now_ns < link->wake_ns) break;
        kv_transport_link_break(link, "no greeting in time");
        return true;
    case LINK_OPEN:
        return send_some(link, now_ns, wake_out);
    case LINK_CLOSING:
        if (bury_link(link)) return true;
        if (now_ns + CLOSE_LOOK_NS < *wake_out) *wake_out = now_ns + CLOSE_LOOK_NS;
        return false;
    case LINK_FREE:
        return false;
    }
    if (link->wake_ns < *wake_out) *wake_out = link->wake_ns;
    return false;
}

/* ---- ends of tickets ---- */

/* Queues END messages for peers of tickets that have ended. Called with the lock held. */
static bool announce(struct kv_transport *transport) {
    struct transfer_ended ended;
    bool any = false;
    for (; transfer_ledger_announce(&transport->ledger, &ended); any = true) {
        transport->announced = true;
        if (ended.peer == TRANSFER_NO_PEER ||
            (ended.side == TRANSFER_OUT && ended.end == TRANSFER_DONE))
            continue;
        struct link *link = kv_transport_link_of(transport, ended.peer);
        if (!link || (link->state == LINK_CLOSING && !link->again)) continue;
        struct outgoing end = {
            .kind = KV_WIRE_END,
            .slot = TRANSFER_NONE,
            .header.end = {.grant = ended.grant, .end = ended.end},
        };
        memcpy(end.header.end.reason, ended.reason, sizeof ended.reason);
        (void)kv_transport_link_put(transport, link, &end, true); /* else the deadline ends it */
    }
    return any;
}

static bool tend_grants(struct kv_transport *transport, int64_t now_ns, int64_t *wake_out) {
    pthread_mutex_lock(&transport->lock);
    struct transfer_ledger *ledger = &transport->ledger;
    transfer_ledger_expire(ledger, now_ns);
    if (ledger->finishing_count > 0)
        for (uint32_t i = 0; i < KV_LINKS_MAX; i++)
            if (transport->links[i].first)
                kv_transport_link_prune(transport, &transport->links[i], false);
    int64_t drained_ns, deadline_ns = transfer_ledger_next_deadline(ledger);
    uint64_t stuck =
        transfer_ledger_stuck(ledger, transport->options.drain_ns_max, now_ns, &drained_ns);
    struct link *link = stuck == TRANSFER_NO_PEER ? NULL : kv_transport_link_of(transport, stuck);
    bool any = announce(transport);
    transport->active_count = 0;
    for (uint32_t i = 0; i < KV_LINKS_MAX; i++)
        if (transport->links[i].state != LINK_FREE)
            transport->active[transport->active_count++] = &transport->links[i];
    pthread_mutex_unlock(&transport->lock);
    if (link && link->state != LINK_CLOSING) {
        kv_transport_link_break(link, "memory of an ended transfer did not come back in time");
        any = true;
    }
    if (deadline_ns < *wake_out) *wake_out = deadline_ns;
    if (drained_ns < *wake_out) *wake_out = drained_ns;
    return any;
}

bool kv_transport_link_tend(struct kv_transport *transport, int64_t now_ns, int64_t *wake_out) {
    bool any = tend_sent(transport);
    any |= tend_grants(transport, now_ns, wake_out);
    for (uint32_t i = 0; i < transport->active_count; i++)
        any |= tend_link(transport->active[i], now_ns, wake_out);
    return any;
}

bool kv_transport_link_close_all(struct kv_transport *transport, bool now) {
    bool none = true;
    for (uint32_t i = 0; i < transport->active_count; i++) {
        struct link *link = transport->active[i];
        pthread_mutex_lock(&transport->lock);
        bool idle = !link->first && link->sending == 0;
        pthread_mutex_unlock(&transport->lock);
        none &= link->state == LINK_FREE;
        if (now || idle || link->state != LINK_OPEN)
            kv_transport_link_break(link, "the transport closes");
    }
    return none;
}
