/* SPDX-License-Identifier: Apache-2.0
 * Inside of the room: what stands behind the door. An exchange begins with its carrier's functions.
 */
#ifndef COMPUTE_EXCHANGE_CARRIER_H
#define COMPUTE_EXCHANGE_CARRIER_H

#include "compute/exchange/exchange.h"

/* When something leaves over a slow link. */
struct exchange_span {
    int64_t began_ns, ended_ns;
    uint64_t bytes;
};

struct carrier {
    bool carries;
    void (*close)(struct exchange *exchange);
    void (*dispatch_begin)(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                           uint32_t tokens, const char *activations);
    void (*dispatch_finish)(struct exchange *exchange, struct exchange_received *received_out);
    char *(*result)(struct exchange *exchange, uint32_t row);
    void (*combine_begin)(struct exchange *exchange, uint32_t first_row, uint32_t row_count);
    void (*combine_finish)(struct exchange *exchange, struct exchange_returned *returned_out);
    void (*progress)(struct exchange *exchange);
    /* Of carriers that carry: */
    bool (*arrived)(struct exchange *exchange); /* what the next finish waits for */
    /* To all that were just sent something: when it leaves. What came is in exchange.leaves once it
     * has arrived: the first begin, the last end. */
    void (*tell)(struct exchange *exchange, struct exchange_span leaves);
};

struct exchange {
    const struct carrier *carrier;
    struct exchange_options options;
    bool splits_replicas;
    struct exchange_counts counts;
    struct exchange_transfer dispatch, combine, last; /* under way, under way, over */
    struct exchange_span leaves; /* slow links: what has arrived of it; zeros: nothing */
    int64_t idle_ns; /* since when this rank has had nothing to do but to wait for it; 0: not */
    int64_t seen_ns; /* when it was first seen to have arrived; 0: not looked, or not yet */
};

static inline bool exchange_is_slow(const struct exchange *exchange) {
    const struct exchange_link *link = exchange->options.link;
    return link && (link->ns_per_byte > 0 || link->latency_ns > 0);
}

#endif
