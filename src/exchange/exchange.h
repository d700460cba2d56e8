/* SPDX-License-Identifier: Apache-2.0
 * Expert exchange: carries each token's activations to the ranks that hold its experts, and their
 * results back. Begin and finish are separate so that an overlap schedule can put work between
 * them.
 *
 * Owns who computes which (token, expert) pair and the order in which results are summed: pairs
 * come back per token in ascending logical expert id, the same at one rank as at many, whatever the
 * placement. It never does arithmetic on activations: the model rounds results to the exchange type
 * before it hands them over, also here at one rank, where nothing is copied (`self`).
 */
#ifndef EXCHANGE_EXCHANGE_H
#define EXCHANGE_EXCHANGE_H

#include "base/status.h"

#include <stdint.h>

/* A run of pairs of one expert. */
struct exchange_group {
    uint32_t expert;
    uint32_t first_row; /* in the arrays of struct exchange_received */
    uint32_t row_count;
};

/* What this rank has to compute, experts ascending, tokens ascending within an expert. */
struct exchange_received {
    uint32_t group_count;
    const struct exchange_group *groups;
    uint32_t row_count;
    const uint32_t *row_token; /* [row_count] index of the token whose activations the row takes */
};

/* Where a token's results are, in the order of summation. */
struct exchange_returned {
    const uint32_t *token_rows; /* [tokens][experts_per_token] row, ascending expert id */
};

struct exchange_options {
    uint32_t tokens_max, experts, experts_per_token;
};

struct exchange;

enum status exchange_open_self(const struct exchange_options *options,
                               struct exchange **exchange_out, struct error *error);
void exchange_close(struct exchange *exchange);

/* `experts`: [tokens][experts_per_token] logical ids, ascending per token. */
void exchange_dispatch_begin(struct exchange *exchange, const uint32_t *experts, uint32_t tokens);
void exchange_dispatch_finish(struct exchange *exchange, struct exchange_received *received_out);

/* Rows [first_row, first_row + row_count) of the received ones are computed and rounded. Rows are
 * handed over in ascending order; a token's results may be summed as far as they have come back. */
void exchange_combine_begin(struct exchange *exchange, uint32_t first_row, uint32_t row_count);
void exchange_combine_finish(struct exchange *exchange, struct exchange_returned *returned_out);

#endif
