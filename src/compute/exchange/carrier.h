/* SPDX-License-Identifier: Apache-2.0
 * What carries an exchange (exchange.h): among ranks (ranks.c), within one (self.c), or a rank's own
 * tokens for timing (echo.c). Private to src/compute/exchange.
 */
#ifndef COMPUTE_EXCHANGE_CARRIER_H
#define COMPUTE_EXCHANGE_CARRIER_H

#include "compute/exchange/exchange.h"

/* When bytes leave over a slow link. */
struct exchange_span {
    int64_t began_ns, ended_ns;
    uint64_t bytes;
};

/* The functions of exchange.h, for one kind of transport. */
struct carrier {
    bool forwards; /* tokens leave this rank: transfers take time, and are timed */
    void (*close)(struct exchange *exchange);
    void (*dispatch_begin)(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                           const float *weights, uint32_t tokens, const char *activations);
    void (*dispatch_finish)(struct exchange *exchange, struct exchange_received *received_out);
    /* Among ranks: */
    void (*pair_slots)(const struct exchange *exchange, uint32_t *slots_out, uint32_t pairs);
    uint32_t (*nodes)(const struct exchange *exchange);
    uint32_t (*relayed)(const struct exchange *exchange, uint32_t node, uint32_t *slots_out,
                        const char **rows_out);
    char *(*result)(struct exchange *exchange, uint32_t row);
    void (*combine_begin)(struct exchange *exchange, uint32_t first_row, uint32_t row_count);
    void (*combine_finish)(struct exchange *exchange, struct exchange_returned *returned_out);
    void (*progress)(struct exchange *exchange); /* NULL: it needs none */
    /* If the carrier carries: true if the next finish has nothing to wait for. Over slow links, when
     * what came here has left is in exchange.leaves then: from the first begin to the last end. */
    bool (*arrived)(struct exchange *exchange);
};

struct exchange {
    const struct carrier *carrier;
    struct exchange_options options;
    bool splits_replicas, goes_by_nodes;
    struct exchange_counts counts;
    struct exchange_transfer dispatch, combine; /* the ones under way */
    struct exchange_transfer last;              /* the one that the last finish ended */
    struct exchange_span leaves[2]; /* slow links, from other nodes and from this: when what has
                                     * arrived left; zeros: nothing has */
    int64_t link_ns; /* slow links: how long one sender's link was busy with it, at most */
    int64_t idle_ns; /* since when this rank only waits for the transfer; 0: it does not */
    int64_t seen_ns; /* when the transfer was first seen to have arrived; 0: not yet */
};

static inline bool exchange_is_slow(const struct exchange *exchange) {
    const struct exchange_link *link = exchange->options.link;
    return link && (link->ns_per_byte > 0 || link->latency_ns > 0);
}

/* The time for which a message occupies the rank's link, to its own node or to others, after all
 * earlier ones have left. */
struct exchange_span exchange_take_link(struct exchange *exchange, bool near, uint64_t bytes);
/* The link has brought what left then; zeros: nothing did. */
bool exchange_is_through(const struct exchange *exchange, bool near,
                         const struct exchange_span *leaves);

#endif
