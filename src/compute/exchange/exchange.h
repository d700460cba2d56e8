/* SPDX-License-Identifier: Apache-2.0
 * Expert exchange: carries each token's activations to the ranks that hold its experts, and their
 * results back. Begin and finish are separate so that an overlap schedule can put work between
 * them.
 *
 * Owns who computes which (token, expert) pair and the order in which results are summed: pairs
 * come back per token in ascending logical expert id, the same at one rank as at many, whatever the
 * placement. It never does arithmetic on activations: rows of bytes go out and come back, and the
 * model rounds to the exchange type before it hands them over, also at one rank, where nothing is
 * copied (self.c). Where the order of summation goes by groups of experts, it finds the groups of
 * which a rank or a node has all that a token needs; the model's function sums them there, and one
 * row comes back.
 *
 * Among ranks (ranks.c), every rank takes part in every dispatch and combine, in the same order,
 * also with no tokens. A token goes once to each rank that holds any of its experts, or once to
 * each node and from there to the ranks.
 */
#ifndef COMPUTE_EXCHANGE_EXCHANGE_H
#define COMPUTE_EXCHANGE_EXCHANGE_H

#include "base/status.h"
#include "compute/exchange/placement.h"

#include <stdbool.h>
#include <stdint.h>

/* A run of pairs of one slot. */
struct exchange_group {
    uint32_t slot;      /* of this rank's in the layer; at one rank: the expert */
    uint32_t first_row; /* in the arrays of struct exchange_received */
    uint32_t row_count;
    bool results_leave; /* with them: it is worth handing over all rows so far */
};

/* Results of a token that are summed on their way: all that it has of a group. */
struct exchange_sum {
    uint32_t count;
    const float *weights;       /* [count] */
    const char *const *results; /* [count] rows of combine_bytes, in order */
    char *sum;                  /* where their sum goes, combine_bytes */
};

/* The rows that this rank computes, slots ascending, tokens in a fixed order within a slot. */
struct exchange_received {
    uint32_t group_count;
    const struct exchange_group *groups;
    uint32_t row_count;
    const uint32_t
        *row_token; /* [row_count] index of the token that the row has its activations from */
    const char *const *token_data; /* each token's row of activations as it was sent; NULL: they
                                    * are the caller's own tokens */
};

/* Many results come back from a rank in so many waves, the first while others are still computed.
 * */
#define EXCHANGE_EXPERT_BATCHES 4
#define EXCHANGE_SUMMED UINT32_MAX /* a result is in the same row as the one before it */

/* Where a token's results are, in the order of summation. */
struct exchange_returned {
    const uint32_t *token_rows; /* [tokens][experts_per_token] row, ascending expert id, or
                                 * EXCHANGE_SUMMED */
    const char *results;        /* rows of combine_bytes; NULL: the rows are the caller's own, those
                                 * of struct exchange_received */
};

struct exchange_options {
    uint32_t tokens_max, experts, experts_per_token;
    /* The rest is for exchange_open_ranks. */
    const struct placement *placement; /* of all ranks; must outlive the exchange */
    uint32_t rank;
    uint32_t dispatch_bytes, combine_bytes; /* of a token's row out, and of a result's row back;
                                             * multiples of EXCHANGE_ALIGN */
    uint32_t group_experts; /* so many experts in a row are a group of the sum; 0: each result comes
                             * back by itself */
    /* Makes the sums, where there are groups: within exchange_combine_begin, and where rows go by
     * nodes within any call that moves transfers on. */
    void (*sum)(void *context, const struct exchange_sum *sums, uint32_t count);
    void *sum_context;
    uint32_t channel;           /* tells exchanges apart that are open at the same time */
    struct exchange_link *link; /* NULL, or zeros: as fast as it goes */
    struct exchange_link
        *near; /* if `link` is slow: to ranks of the same node; NULL: the same link */
};

/* A rank's link to the others, made as slow as asked for: to see on one machine what an overlap
 * schedule is worth between many. What a rank sends in a dispatch or a combine leaves in the order
 * in which it was begun:
 *
 *   leaves from  max(its begin, the end of what left before)
 *   leaves until that + its bytes out * ns_per_byte
 *   is there at  that + latency_ns, though a receiver takes its bytes in * ns_per_byte at least
 *
 * Ranks tell each other these times, so it is for one machine, with one clock. It takes time, not
 * CPU. All exchanges of a rank share its link, which must outlive them. All ranks' links are slow,
 * or none is. */
struct exchange_link {
    double ns_per_byte;
    int64_t latency_ns;
    int64_t free_ns; /* when the last transfer's bytes were through */
};

#define EXCHANGE_ALIGN 16

/* Sums since the exchange was opened. */
struct exchange_counts {
    uint64_t tokens_dispatched;   /* tokens' rows that came to this rank, its own ones included */
    uint64_t pairs;               /* (token, expert) pairs that this rank computed */
    uint64_t bytes_sent;          /* to other ranks, both ways */
    uint64_t bytes_received;      /* from other ranks, both ways */
    int64_t experts_ns;           /* from a dispatch's end until its results were handed over */
    uint64_t bytes_between_nodes; /* of bytes_sent: to ranks of other nodes */
    int64_t transfer_ns;          /* link_ns of all transfers, summed */
    int64_t dispatch_ns;          /* of that: of dispatches */
    int64_t waited_ns;            /* of this rank's time, for the ends of transfers */
};

/* A dispatch or a combine that is over. Times of the monotonic clock. */
struct exchange_transfer {
    int64_t began_ns;  /* over a slow link: when the first byte left */
    int64_t ended_ns;  /* over a slow link: as computed; else when the end was seen */
    int64_t link_ns;   /* begin to end; over a slow link without the pauses between waves */
    int64_t waited_ns; /* of this rank's time, for the transfer's end */
    uint64_t bytes_sent, bytes_received;
};

struct exchange;

enum status exchange_open_self(const struct exchange_options *options,
                               struct exchange **exchange_out, struct error *error) MUST_USE;
/* Inside a job, on all ranks alike (compute/exchange/job.h). */
enum status exchange_open_ranks(const struct exchange_options *options,
                                struct exchange **exchange_out, struct error *error) MUST_USE;
/* One of the placement's ranks, without the others (echo.c): its own tokens come back, as many rows
 * to each slot as even choices of equal ranks would bring, or as exchange_echo_rows says.
 * `rows_max`: rows of all slots, at least those of even choices. */
enum status exchange_open_echo(const struct exchange_options *options, uint32_t rows_max,
                               struct exchange **exchange_out, struct error *error) MUST_USE;
/* From the next dispatch on, each slot gets so many rows; 0: by even choices. */
void exchange_echo_rows(struct exchange *exchange, uint32_t slot_rows);

void exchange_close(struct exchange *exchange);

/* From the next dispatch on: replicas are split for each batch, instead of taking turns. All ranks
 * say the same, and have to begin their dispatches in the same order, that of all exchanges. */
void exchange_split_replicas(struct exchange *exchange, bool splits);

/* From the next dispatch on: rows go once to each node and are passed on there, and sums of a group
 * that a node has come back as one row. It changes no result, only what is summed where. All ranks
 * say the same. Nothing at nodes of one rank, in a job of one node, or while a rank is gone. */
void exchange_go_by_nodes(struct exchange *exchange, bool by_nodes);

/* True: rows are carried as bytes; false: they stay where they are. */
bool exchange_forwards(const struct exchange *exchange);

/* How many of a token's experts [count], ascending, from the first on are of the first's group. */
uint32_t exchange_group_run(const uint32_t *experts, uint32_t count, uint32_t group_experts);

/* `experts`: [tokens][experts_per_token] logical ids, ascending per token, and `weights` theirs,
 * which only sums by groups need. `activations`: [tokens][dispatch_bytes] where rows are carried,
 * else NULL; those for this rank's own experts are read where they are, so they stay until all
 * received rows are computed. */
void exchange_dispatch_begin(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                             const float *weights, uint32_t tokens, const char *activations);
void exchange_dispatch_finish(struct exchange *exchange, struct exchange_received *received_out);

/* The slot that computes each pair of the last dispatch that began among ranks:
 * [tokens][experts_per_token], counted through all ranks' slots. */
void exchange_pair_slots(const struct exchange *exchange, uint32_t *slots_out, uint32_t pairs);
/* The number of nodes that its rows are sent through; 1: they go to each rank directly. */
uint32_t exchange_nodes(const struct exchange *exchange);

#define EXCHANGE_NO_SLOT UINT32_MAX
/* By nodes, once the dispatch is over: what this rank has passed on to the ranks of its node, which
 * are tokens of the rank of its place on another node. `slots_out`: [tokens][experts_per_token] the
 * slots that compute each, counted through the node's, and EXCHANGE_NO_SLOT behind them;
 * `rows_out`: [tokens][dispatch_bytes], in the order of the sender's tokens. Returns the tokens. */
uint32_t exchange_relayed(const struct exchange *exchange, uint32_t node, uint32_t *slots_out,
                          const char **rows_out);

/* Where a received row's result goes, combine_bytes of it; only where rows are carried. */
char *exchange_result(struct exchange *exchange, uint32_t row);

/* Rows [first_row, first_row + row_count) of the received ones are computed and, where rows are
 * carried, written. Rows are handed over in ascending order. A rank that received none hands none
 * over. Where rows are not carried, a token's results may be summed as far as they have come back.
 */
void exchange_combine_begin(struct exchange *exchange, uint32_t first_row, uint32_t row_count);
void exchange_combine_finish(struct exchange *exchange, struct exchange_returned *returned_out);

/* Whether the transfer that the next finish waits for is here, so that it will not have to wait. */
bool exchange_arrived(struct exchange *exchange);

/* Waits until one of several has arrived. The time counts as that transfer's wait. */
struct exchange *exchange_wait_any(struct exchange *const *exchanges, uint32_t count);

/* The transfer that the last finish ended; zeros where rows are not carried. */
struct exchange_transfer exchange_last(const struct exchange *exchange);

/* Lets what is under way move on; call it now and then between begin and finish. */
void exchange_progress(struct exchange *exchange);

struct exchange_counts exchange_counts(const struct exchange *exchange);

#endif
