/* SPDX-License-Identifier: Apache-2.0
 * Transfers KV blocks from the pages of a prefill rank to those of a decode rank, slice by slice
 * while the prompt is still being computed, over UCX (TCP, or RDMA if there is a fabric). Each rank
 * opens one transport, which has a thread that listens, sends and receives, and sleeps when idle.
 *
 *   decode rank                                  prefill rank
 *   expect(ticket, pages, deadline)
 *      ── ticket, kv_transport_address ──►       offer(ticket, address, deadline)
 *                                                push(ticket, block, slice, rows) ... per layer
 *   layers(ticket): 0, 1, 2, ...                 finish(ticket, summary)
 *   next: DONE, the pages are whole              next: DONE, the pages may be given back
 *
 * Every ticket ends exactly once on each side, and kv_transport_next returns its end. Until then
 * the transport may write to its memory (receiver) or read it (sender); after that it does not
 * access it. So a cancelled ticket is still in use until its end. If a connection breaks, all its
 * tickets end, and the next offer opens a new connection.
 *
 * Thread-safe. Messages of peers are validated (ticket, place, length, checksum), but UCX itself
 * trusts its peers: over TCP their packets contain addresses of this process. The network between
 * the ranks must be private.
 */
#pragma once

#include "compute/model/kv_pages.h"
#include "serving/cache/transfer_ledger.h"

#define KV_ADDRESS_BYTES 64 /* "[address]:port" and a terminator */
#define KV_LINKS_MAX 256    /* connections of a transport, in and out */

struct kv_transport;

struct kv_transport_options {
    const struct kv_pages *pages; /* pages for received blocks; pushed slices may be elsewhere */
    const uint8_t *model_id;      /* [32] */
    const char *numerics_id;      /* up to 31 bytes */
    const char *host;             /* numeric address to listen at and to be reached at */
    uint16_t port;                /* 0: any */
    uint32_t grant_count;         /* limit of tickets, for both directions together */
    uint64_t queue_bytes_max;     /* limit of bytes that are pushed and not yet sent */
    uint64_t bytes_per_second;    /* limit of sending; 0: none */
    uint64_t fetch_bytes_min;     /* UCX fetches slices of at least this size directly into their
                                * page; smaller ones are sent with the message and copied */
    int64_t connect_ns_max;       /* timeout of one attempt */
    uint32_t connect_attempts;
    int64_t drain_ns_max; /* time for UCX to release the memory of an ended ticket, before the
                           * connection is closed */
    int64_t early_ns_max; /* time that a message for an unknown ticket is kept, because the sender
                           * may know a ticket before this rank. Shorter than drain_ns_max */
};

/* Default values; the caller adds pages, model_id, numerics_id and host. Without an RDMA device no
 * slice is fetched: over TCP a copy costs less than a request. */
struct kv_transport_options kv_transport_defaults(void);

/* STATUS_UNSUPPORTED in a build without UCX. The pages must outlive the transport. */
enum status kv_transport_open(const struct kv_transport_options *options,
                              struct kv_transport **transport_out, struct error *error) MUST_USE;

/* Ends all tickets as CANCELLED, without reporting them here, and all connections. */
void kv_transport_close(struct kv_transport *transport);

/* The address for senders, such as "127.0.0.1:4711". */
const char *kv_transport_address(const struct kv_transport *transport);

/* ---- receiving ---- */

/* Opens a ticket to receive blocks into these pages (transfer_ledger_expect). The deadline is by
 * clock_now_ns. */
enum status kv_transport_expect(struct kv_transport *transport, struct transfer_grant grant,
                                const struct transfer_block *blocks, uint32_t count,
                                int64_t deadline_ns, struct error *error) MUST_USE;

/* Stores the number of leading slices that have arrived of every block. Returns false if the ticket
 * is not open. */
bool kv_transport_layers(struct kv_transport *transport, struct transfer_grant grant,
                         uint32_t *layers_out);

/* ---- sending ---- */

/* Opens a ticket to the transport at `address`, and connects if necessary. STATUS_FULL: too many
 * tickets or connections. STATUS_INVALID: an invalid address, or the ticket is in use. */
enum status kv_transport_offer(struct kv_transport *transport, struct transfer_grant grant,
                               const char *address, int64_t deadline_ns,
                               struct error *error) MUST_USE;

/* Sends rows 0..row_count-1 of a slice, which must not change until the ticket has ended.
 * STATUS_FULL: too many bytes are queued; try again when the file is readable, or later.
 * STATUS_GONE: the ticket has ended. */
enum status kv_transport_push(struct kv_transport *transport, struct transfer_grant grant,
                              uint32_t block, uint32_t slice, const void *rows,
                              uint32_t row_count) MUST_USE;

/* Ends a ticket after its last push. The receiver gets a summary of up to TRANSFER_SUMMARY_BYTES
 * with its end. STATUS_GONE: the ticket has ended. */
enum status kv_transport_finish(struct kv_transport *transport, struct transfer_grant grant,
                                const void *summary, uint32_t summary_bytes) MUST_USE;

/* ---- both ---- */

/* Ends an open transfer as CANCELLED. Returns false if it has ended already. In both cases
 * kv_transport_next returns its end. */
bool kv_transport_cancel(struct kv_transport *transport, enum transfer_side side,
                         struct transfer_grant grant);

/* Readable when there may be an end or a new layer, or a full queue has room again. */
int kv_transport_file(const struct kv_transport *transport);

/* Returns the next end, or false if there is none; the file is then not readable until there is. */
bool kv_transport_next(struct kv_transport *transport, struct transfer_ended *ended_out);

struct kv_transport_state {
    struct transfer_counts counts;
    uint32_t grants, pages, links;             /* open now */
    uint64_t queued_bytes;                     /* pushed, not yet sent */
    uint64_t slice_bytes[TRANSFER_SIDE_COUNT]; /* sent or received so far */
    uint64_t connects, connects_failed, links_lost, malformed;
    uint64_t early; /* SLICE and FINISH messages that had to wait for their ticket */
};

/* Gets the current state. */
void kv_transport_get_state(struct kv_transport *transport, struct kv_transport_state *state_out);
