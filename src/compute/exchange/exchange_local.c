/* SPDX-License-Identifier: Apache-2.0
 * The exchange of a single rank: dispatch is a counting sort by expert, and combine returns the
 * index. No activation is copied.
 */
#include "base/check.h"
#include "compute/exchange/exchange_backend.h"

#include <stdlib.h>
#include <string.h>

struct local_exchange {
    struct exchange exchange; /* first: a struct exchange * points to both */
    uint32_t row_count;
    uint32_t rows_returned;
    uint32_t group_count;
    struct exchange_group *groups; /* [experts] */
    uint32_t *row_token;           /* [tokens_max * experts_per_token] */
    uint32_t *token_rows;          /* [tokens_max][experts_per_token] */
    uint32_t *next_row;            /* [experts] */
};

static struct local_exchange *local_of(struct exchange *exchange) {
    return (struct local_exchange *)exchange;
}

static void close_local(struct exchange *exchange) {
    struct local_exchange *local = local_of(exchange);
    free(local->groups);
    free(local->row_token);
    free(local->token_rows);
    free(local->next_row);
    free(local);
}

static void local_dispatch_begin(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                                 const float *weights, uint32_t tokens, const char *activations) {
    struct local_exchange *local = local_of(exchange);
    uint32_t per_token = exchange->options.experts_per_token;
    check(tokens <= exchange->options.tokens_max);
    local->row_count = tokens * per_token;
    local->rows_returned = 0;
    local->group_count = 0;
    uint32_t *next_row =
        local->next_row; /* of each expert: how many rows, then the next free one */
    memset(next_row, 0, exchange->options.experts * sizeof *next_row);
    for (uint32_t i = 0; i < local->row_count; i++) {
        check(experts[i] < exchange->options.experts);
        next_row[experts[i]]++;
    }
    uint32_t row = 0;
    for (uint32_t expert = 0; expert < exchange->options.experts; expert++) {
        uint32_t count = next_row[expert];
        next_row[expert] = row;
        if (!count) continue;
        local->groups[local->group_count++] =
            (struct exchange_group){.slot = expert, .first_row = row, .row_count = count};
        row += count;
    }
    for (uint32_t token = 0; token < tokens; token++)
        for (uint32_t k = 0; k < per_token; k++) {
            uint32_t place = next_row[experts[token * per_token + k]]++;
            local->row_token[place] = token;
            local->token_rows[token * per_token + k] = place;
        }
    exchange->counts.tokens_dispatched += tokens;
    exchange->counts.pairs += local->row_count;
}

static void local_dispatch_finish(struct exchange *exchange,
                                  struct exchange_received *received_out) {
    const struct local_exchange *local = local_of(exchange);
    *received_out = (struct exchange_received){
        .group_count = local->group_count,
        .groups = local->groups,
        .row_count = local->row_count,
        .row_token = local->row_token,
    };
}

static void local_combine_begin(struct exchange *exchange, uint32_t first_row, uint32_t row_count) {
    struct local_exchange *local = local_of(exchange);
    check(first_row == local->rows_returned);
    check(row_count <= local->row_count - first_row);
    local->rows_returned += row_count;
}

static void local_combine_finish(struct exchange *exchange,
                                 struct exchange_returned *returned_out) {
    *returned_out = (struct exchange_returned){.token_rows = local_of(exchange)->token_rows};
}

static const struct exchange_backend local_backend = {
    .close = close_local,
    .dispatch_begin = local_dispatch_begin,
    .dispatch_finish = local_dispatch_finish,
    .combine_begin = local_combine_begin,
    .combine_finish = local_combine_finish,
};

enum status exchange_open_local(const struct exchange_options *options,
                                struct exchange **exchange_out, struct error *error) {
    struct local_exchange *local = calloc(1, sizeof *local);
    if (!local) return error_set(error, STATUS_NO_MEMORY, "no memory for the expert exchange");
    size_t rows = (size_t)options->tokens_max * options->experts_per_token;
    local->exchange.backend = &local_backend;
    local->exchange.options = *options;
    local->groups = calloc(options->experts, sizeof *local->groups);
    local->next_row = calloc(options->experts, sizeof *local->next_row);
    local->row_token = calloc(rows, sizeof *local->row_token);
    local->token_rows = calloc(rows, sizeof *local->token_rows);
    if (!local->groups || !local->next_row || !local->row_token || !local->token_rows) {
        close_local(&local->exchange);
        return error_set(error, STATUS_NO_MEMORY,
                         "no memory for the expert exchange: %zu rows; lower the maximum "
                         "number of tokens per step",
                         rows);
    }
    *exchange_out = &local->exchange;
    return STATUS_OK;
}
