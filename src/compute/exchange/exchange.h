/* SPDX-License-Identifier: Apache-2.0
 * The all-to-all exchange of expert parallelism. A dispatch sends each token's activations to the
 * ranks that hold its experts; a combine returns the experts' results. Each has a begin and a
 * finish, so that an overlap schedule can compute in between.
 *
 * The exchange decides which replica computes a (token, expert) pair, and fixes the order of
 * summation: a token's results return in ascending order of logical expert id, for any number of
 * ranks and any placement. It does no arithmetic on activations. It moves rows of bytes, which the
 * model has already rounded to the exchange type; it rounds at one rank too, where no row is
 * copied. If results are summed by groups of experts, the exchange finds the groups of a token that
 * one rank or one node computes completely. There the model's function sums them, and one row
 * returns.
 *
 * Among several ranks every rank takes part in every dispatch and combine, in the same order, also
 * if it has no tokens. A token is sent once to each rank that holds any of its experts. With two
 * levels it is sent once to each node, and forwarded there to the ranks.
 */
#pragma once

#include "base/status.h"
#include "compute/exchange/placement.h"

#include <stdbool.h>
#include <stdint.h>

/* Consecutive rows of one expert slot. */
struct exchange_group {
    uint32_t slot;      /* among this rank's slots of the layer; at one rank: the expert */
    uint32_t first_row; /* in the arrays of struct exchange_received */
    uint32_t row_count;
    bool results_leave; /* pass all rows so far to exchange_combine_begin: a message is due */
};

/* A partial sum: all results that a token has of one group of experts. */
struct exchange_sum {
    uint32_t count;
    const float *weights;       /* [count] */
    const char *const *results; /* [count] rows of combine_bytes, in order */
    char *sum;                  /* output, combine_bytes */
};

/* The rows that this rank computes, slots ascending, tokens in a fixed order within a slot. */
struct exchange_received {
    uint32_t group_count;
    const struct exchange_group *groups;
    uint32_t row_count;
    const uint32_t *row_token;     /* [row_count] index of the row's token in token_data */
    const char *const *token_data; /* each token's row of activations, as it was sent; NULL: the
                                    * tokens are the caller's own */
};

/* A rank returns the results of a large message in this many batches. The first leaves while later
 * experts still compute. */
#define EXCHANGE_EXPERT_BATCHES 4
#define EXCHANGE_SUMMED UINT32_MAX /* the result is part of the previous pair's row, a sum */

/* The rows of each token's results, in the order of summation. */
struct exchange_returned {
    const uint32_t *token_rows; /* [tokens][experts_per_token] row, ascending expert id, or
                                 * EXCHANGE_SUMMED */
    const char *results;        /* rows of combine_bytes; NULL: the rows are those of struct
                                 * exchange_received, in the caller's memory */
};

struct exchange_options {
    uint32_t tokens_max, experts, experts_per_token;
    /* The other options are for exchange_open_ranks and exchange_open_loopback. */
    const struct placement *placement; /* of all ranks; must outlive the exchange */
    uint32_t rank;
    uint32_t dispatch_bytes, combine_bytes; /* of a token's row, and of a result's row;
                                             * multiples of EXCHANGE_ALIGN */
    uint32_t group_experts; /* this many consecutive experts are a group that is summed first; 0:
                             * each result returns separately */
    /* Computes the sums of groups. The exchange calls it in exchange_combine_begin, and with two
     * levels in any call that makes progress. */
    void (*sum)(void *context, const struct exchange_sum *sums, uint32_t count);
    void *sum_context;
    uint32_t channel;           /* distinguishes exchanges that are open at the same time */
    struct exchange_link *link; /* NULL or zeros: not slowed down */
    struct exchange_link
        *node_link; /* if `link` is slow: the link to ranks of the same node; NULL: `link` */
};

/* A simulated network link with a bandwidth and a latency. It shows on one machine what an overlap
 * schedule gains between many. A rank's messages leave in the order in which they were begun:
 *
 *   departure begins  max(the message's begin, the end of the previous departure)
 *   departure ends    departure begins + its bytes * ns_per_byte
 *   arrival           departure ends + latency_ns; a receiver also needs ns_per_byte for each byte
 *
 * Ranks send each other these times, so all ranks must share one clock. A wait sleeps; it does not
 * compute. All exchanges of a rank share its link, which must outlive them. Either all ranks have
 * slow links or none has. */
struct exchange_link {
    double ns_per_byte;
    int64_t latency_ns;
    int64_t free_ns; /* when the last message has left */
};

#define EXCHANGE_ALIGN 16

/* Sums since the exchange was opened. */
struct exchange_counts {
    uint64_t tokens_dispatched; /* rows of tokens that this rank received, its own included */
    uint64_t pairs;             /* (token, expert) pairs that this rank computed */
    uint64_t bytes_sent;        /* to other ranks, in dispatches and combines */
    uint64_t bytes_received;    /* from other ranks, in dispatches and combines */
    int64_t experts_ns; /* from a dispatch's end to the exchange_combine_begin of its last row */
    uint64_t bytes_between_nodes; /* the part of bytes_sent to other nodes */
    int64_t transfer_ns;          /* sum of link_ns of all transfers */
    int64_t dispatch_ns;          /* the part of dispatches */
    int64_t waited_ns;            /* for which this rank waited for transfers */
};

/* A finished dispatch or combine. Times of the monotonic clock. */
struct exchange_transfer {
    int64_t began_ns;  /* over a slow link: when the first byte left */
    int64_t ended_ns;  /* over a slow link: computed; else when this rank saw the end */
    int64_t link_ns;   /* begin to end; over a slow link without the pauses between batches */
    int64_t waited_ns; /* for which this rank waited for the transfer */
    uint64_t bytes_sent, bytes_received;
};

struct exchange;

enum status exchange_open_local(const struct exchange_options *options,
                                struct exchange **exchange_out, struct error *error) MUST_USE;
/* Within a job (job.h), on all ranks. */
enum status exchange_open_ranks(const struct exchange_options *options,
                                struct exchange **exchange_out, struct error *error) MUST_USE;
/* One rank of the placement without the others, for timing (exchange_loopback.c). It receives its
 * own tokens: as many rows for each slot as equal ranks with evenly chosen experts would send, or
 * as exchange_loopback_rows sets. `rows_max`: capacity for rows of all slots, at least that of even
 * choices. */
enum status exchange_open_loopback(const struct exchange_options *options, uint32_t rows_max,
                                   struct exchange **exchange_out, struct error *error) MUST_USE;
/* From the next dispatch on, each slot receives this many rows; 0: by even choices. */
void exchange_loopback_rows(struct exchange *exchange, uint32_t slot_rows);

void exchange_close(struct exchange *exchange);

/* From the next dispatch on: a batch's tokens are divided among an expert's replicas to balance the
 * ranks (split_tokens.h); otherwise replicas take turns. All ranks must choose the same, and must
 * begin the dispatches of all exchanges in the same order. */
void exchange_split_replicas(struct exchange *exchange, bool splits);

/* From the next dispatch on: a row is sent once to each node and forwarded there, and a group that
 * one node computes returns as one row. No result changes, only where it is summed. All ranks must
 * choose the same. No effect if nodes have one rank, if there is one node, or while a rank is
 * gone. */
void exchange_set_two_levels(struct exchange *exchange, bool two_levels);

/* True: rows are sent as bytes; false: the single rank reads them in place. */
bool exchange_moves_rows(const struct exchange *exchange);

/* How many of a token's ascending experts [count] belong to the group of the first one. */
uint32_t exchange_group_run(const uint32_t *experts, uint32_t count, uint32_t group_experts);

/* `experts`: [tokens][experts_per_token] logical ids, ascending per token. `weights`: of the same
 * shape; only sums of groups need them. `activations`: [tokens][dispatch_bytes] if rows are sent,
 * else NULL. This rank's own experts read them in place, so they must stay until all received rows
 * are computed. */
void exchange_dispatch_begin(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                             const float *weights, uint32_t tokens, const char *activations);
void exchange_dispatch_finish(struct exchange *exchange, struct exchange_received *received_out);

/* The slot that computes each pair of the last dispatch that was begun:
 * [tokens][experts_per_token], numbered across all ranks. Several ranks only, as are the next two
 * functions. */
void exchange_pair_slots(const struct exchange *exchange, uint32_t *slots_out, uint32_t pairs);
/* The number of nodes if the dispatch has two levels; 1: rows are sent to each rank directly. */
uint32_t exchange_nodes(const struct exchange *exchange);

#define EXCHANGE_NO_SLOT UINT32_MAX
/* The tokens that this rank forwarded within its node, of the rank with the same local rank on
 * another node; valid after a dispatch of two levels has finished. `slots_out`:
 * [tokens][experts_per_token] the slots that compute each token, numbered across the node, padded
 * with EXCHANGE_NO_SLOT. `rows_out`: [tokens][dispatch_bytes] in the order of the sender's tokens.
 * Returns their number. */
uint32_t exchange_relayed(const struct exchange *exchange, uint32_t node, uint32_t *slots_out,
                          const char **rows_out);

/* The memory for a received row's result, combine_bytes; only if rows are sent. */
char *exchange_result(struct exchange *exchange, uint32_t row);

/* The results of received rows [first_row, first_row + row_count) are computed and, if rows are
 * sent, written to exchange_result. Calls are in ascending order of rows; a rank that received none
 * makes none. At one rank, a token's results may be summed before all of them are here. */
void exchange_combine_begin(struct exchange *exchange, uint32_t first_row, uint32_t row_count);
void exchange_combine_finish(struct exchange *exchange, struct exchange_returned *returned_out);

/* Whether the next finish would return without waiting. */
bool exchange_arrived(struct exchange *exchange);

/* Waits until one of several transfers has arrived. The time counts as that transfer's wait. */
struct exchange *exchange_wait_any(struct exchange *const *exchanges, uint32_t count);

/* The last finished transfer; zeros at one rank. */
struct exchange_transfer exchange_last_transfer(const struct exchange *exchange);

/* Makes progress on transfers; call it now and then between begin and finish. */
void exchange_progress(struct exchange *exchange);

struct exchange_counts exchange_counts(const struct exchange *exchange);
