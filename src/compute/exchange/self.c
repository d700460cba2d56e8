/* SPDX-License-Identifier: Apache-2.0
 * The exchange of a single rank: dispatch is a counting sort by expert, combine a look-up; no
 * activation is copied.
 */
#include "base/check.h"
#include "compute/exchange/carrier.h"

#include <stdlib.h>
#include <string.h>

struct self {
    struct exchange exchange; /* first: a struct exchange * points to both */
    uint32_t row_count;
    uint32_t rows_returned;
    uint32_t group_count;
    struct exchange_group *groups; /* [experts] */
    uint32_t *row_token;           /* [tokens_max * experts_per_token] */
    uint32_t *token_rows;          /* [tokens_max][experts_per_token] */
    uint32_t *next_row;            /* [experts] */
};

static struct self *self_of(struct exchange *exchange) {
    return (struct self *)exchange;
}

static void close_self(struct exchange *exchange) {
    struct self *self = self_of(exchange);
    free(self->groups);
    free(self->row_token);
    free(self->token_rows);
    free(self->next_row);
    free(self);
}

static void self_dispatch_begin(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                                const float *weights, uint32_t tokens, const char *activations) {
    struct self *self = self_of(exchange);
    uint32_t per_token = exchange->options.experts_per_token;
    check(tokens <= exchange->options.tokens_max);
    self->row_count = tokens * per_token;
    self->rows_returned = 0;
    self->group_count = 0;
    uint32_t *next_row = self->next_row; /* of each expert: how many rows, then the next free one */
    memset(next_row, 0, exchange->options.experts * sizeof *next_row);
    for (uint32_t i = 0; i < self->row_count; i++) {
        check(experts[i] < exchange->options.experts);
        next_row[experts[i]]++;
    }
    uint32_t row = 0;
    for (uint32_t expert = 0; expert < exchange->options.experts; expert++) {
        uint32_t count = next_row[expert];
        next_row[expert] = row;
        if (!count) continue;
        self->groups[self->group_count++] =
            (struct exchange_group){.slot = expert, .first_row = row, .row_count = count};
        row += count;
    }
    for (uint32_t token = 0; token < tokens; token++)
        for (uint32_t k = 0; k < per_token; k++) {
            uint32_t place = next_row[experts[token * per_token + k]]++;
            self->row_token[place] = token;
            self->token_rows[token * per_token + k] = place;
        }
    exchange->counts.tokens_dispatched += tokens;
    exchange->counts.pairs += self->row_count;
}

static void self_dispatch_finish(struct exchange *exchange,
                                 struct exchange_received *received_out) {
    const struct self *self = self_of(exchange);
    *received_out = (struct exchange_received){
        .group_count = self->group_count,
        .groups = self->groups,
        .row_count = self->row_count,
        .row_token = self->row_token,
    };
}

static void self_combine_begin(struct exchange *exchange, uint32_t first_row, uint32_t row_count) {
    struct self *self = self_of(exchange);
    check(first_row == self->rows_returned);
    check(row_count <= self->row_count - first_row);
    self->rows_returned += row_count;
}

static void self_combine_finish(struct exchange *exchange, struct exchange_returned *returned_out) {
    *returned_out = (struct exchange_returned){.token_rows = self_of(exchange)->token_rows};
}

static const struct carrier self_carrier = {
    .close = close_self,
    .dispatch_begin = self_dispatch_begin,
    .dispatch_finish = self_dispatch_finish,
    .combine_begin = self_combine_begin,
    .combine_finish = self_combine_finish,
};

enum status exchange_open_self(const struct exchange_options *options,
                               struct exchange **exchange_out, struct error *error) {
    struct self *self = calloc(1, sizeof *self);
    if (!self) return error_set(error, STATUS_NO_MEMORY, "no memory for the expert exchange");
    size_t rows = (size_t)options->tokens_max * options->experts_per_token;
    self->exchange.carrier = &self_carrier;
    self->exchange.options = *options;
    self->groups = calloc(options->experts, sizeof *self->groups);
    self->next_row = calloc(options->experts, sizeof *self->next_row);
    self->row_token = calloc(rows, sizeof *self->row_token);
    self->token_rows = calloc(rows, sizeof *self->token_rows);
    if (!self->groups || !self->next_row || !self->row_token || !self->token_rows) {
        close_self(&self->exchange);
        return error_set(error, STATUS_NO_MEMORY,
                         "no memory for the expert exchange: %zu rows; lower the tokens per step",
                         rows);
    }
    *exchange_out = &self->exchange;
    return STATUS_OK;
}
