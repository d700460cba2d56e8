/* SPDX-License-Identifier: Apache-2.0
 * The table of functions behind exchange.h, and the state that all backends share. There are three
 * backends: several ranks (exchange_ranks.c), one rank (exchange_local.c), and one rank of many
 * that is timed alone (exchange_loopback.c). Private to src/compute/exchange.
 */
#pragma once

#include "compute/exchange/exchange.h"

/* When a message occupies a slow link. */
struct exchange_span {
    int64_t began_ns, ended_ns;
    uint64_t bytes;
};

/* One function for each function of exchange.h. */
struct exchange_backend {
    bool moves_rows; /* rows are sent to other ranks: transfers are timed */
    void (*close)(struct exchange *exchange);
    void (*dispatch_begin)(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                           const float *weights, uint32_t tokens, const char *activations);
    void (*dispatch_finish)(struct exchange *exchange, struct exchange_received *received_out);
    /* Several ranks only: */
    void (*pair_slots)(const struct exchange *exchange, uint32_t *slots_out, uint32_t pairs);
    uint32_t (*nodes)(const struct exchange *exchange);
    uint32_t (*relayed)(const struct exchange *exchange, uint32_t node, uint32_t *slots_out,
                        const char **rows_out);
    char *(*result)(struct exchange *exchange, uint32_t row);
    void (*combine_begin)(struct exchange *exchange, uint32_t first_row, uint32_t row_count);
    void (*combine_finish)(struct exchange *exchange, struct exchange_returned *returned_out);
    void (*progress)(struct exchange *exchange); /* NULL: nothing to do */
    /* If moves_rows: true if the next finish has nothing to wait for. Over slow links
     * exchange.departures then holds when the received messages left: from the first begin to the
     * last end. */
    bool (*arrived)(struct exchange *exchange);
};

struct exchange {
    const struct exchange_backend *backend;
    struct exchange_options options;
    bool splits_replicas, two_levels;
    struct exchange_counts counts;
    struct exchange_transfer dispatch, combine; /* in progress */
    struct exchange_transfer last;              /* the last finished transfer */
    struct exchange_span
        departures[2]; /* slow links: when the received messages left, [0] from other
                                     * nodes, [1] from this node; zeros: nothing was received */
    int64_t link_ns;   /* slow links: the longest time for which one sender's link was busy */
    int64_t idle_ns;   /* since when this rank has only waited for the transfer; 0: it computes */
    int64_t seen_ns;   /* when this rank first saw that the transfer had arrived; 0: not yet */
};

static inline bool exchange_is_slow(const struct exchange *exchange) {
    const struct exchange_link *link = exchange->options.link;
    return link && (link->ns_per_byte > 0 || link->latency_ns > 0);
}

/* Appends a message to the queue of this rank's slow link and returns when it occupies the link.
 * `within_node` selects the link to ranks of the same node. */
struct exchange_span exchange_occupy_link(struct exchange *exchange, bool within_node,
                                          uint64_t bytes);
/* Whether a slow link has delivered the messages that left at `departures`; zeros: there are
 * none. */
bool exchange_link_delivered(const struct exchange *exchange, bool within_node,
                             const struct exchange_span *departures);
