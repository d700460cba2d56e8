/* SPDX-License-Identifier: Apache-2.0
 * The exchange of a single rank: dispatch is a counting sort by expert, combine a look-up; no
 * activation is copied.
 */
#include "base/check.h"
#include "exchange/exchange.h"

#include <stdlib.h>
#include <string.h>

struct exchange {
    struct exchange_options options;
    uint32_t tokens;
    uint32_t row_count;
    uint32_t rows_returned;
    uint32_t group_count;
    struct exchange_group *groups; /* [experts] */
    uint32_t *row_token;           /* [tokens_max * experts_per_token] */
    uint32_t *token_rows;          /* [tokens_max][experts_per_token] */
    uint32_t *next_row;            /* [experts] */
};

void exchange_close(struct exchange *exchange) {
    if (!exchange) return;
    free(exchange->groups);
    free(exchange->row_token);
    free(exchange->token_rows);
    free(exchange->next_row);
    free(exchange);
}

enum status exchange_open_self(const struct exchange_options *options,
                               struct exchange **exchange_out, struct error *error) {
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange) return error_set(error, STATUS_NO_MEMORY, "no memory for the expert exchange");
    size_t rows = (size_t)options->tokens_max * options->experts_per_token;
    exchange->options = *options;
    exchange->groups = calloc(options->experts, sizeof *exchange->groups);
    exchange->next_row = calloc(options->experts, sizeof *exchange->next_row);
    exchange->row_token = calloc(rows, sizeof *exchange->row_token);
    exchange->token_rows = calloc(rows, sizeof *exchange->token_rows);
    if (!exchange->groups || !exchange->next_row || !exchange->row_token || !exchange->token_rows) {
        exchange_close(exchange);
        return error_set(error, STATUS_NO_MEMORY,
                         "no memory for the expert exchange: %zu rows; lower the tokens per step",
                         rows);
    }
    *exchange_out = exchange;
    return STATUS_OK;
}

void exchange_dispatch_begin(struct exchange *exchange, const uint32_t *experts, uint32_t tokens) {
    uint32_t per_token = exchange->options.experts_per_token;
    check(tokens <= exchange->options.tokens_max);
    exchange->tokens = tokens;
    exchange->row_count = tokens * per_token;
    exchange->rows_returned = 0;
    exchange->group_count = 0;
    uint32_t *next_row = exchange->next_row; /* first counts, then each expert's next free row */
    memset(next_row, 0, exchange->options.experts * sizeof *next_row);
    for (uint32_t i = 0; i < exchange->row_count; i++) {
        check(experts[i] < exchange->options.experts);
        next_row[experts[i]]++;
    }
    uint32_t row = 0;
    for (uint32_t expert = 0; expert < exchange->options.experts; expert++) {
        uint32_t count = next_row[expert];
        next_row[expert] = row;
        if (!count) continue;
        exchange->groups[exchange->group_count++] =
            (struct exchange_group){.expert = expert, .first_row = row, .row_count = count};
        row += count;
    }
    for (uint32_t token = 0; token < tokens; token++)
        for (uint32_t k = 0; k < per_token; k++) {
            uint32_t place = next_row[experts[token * per_token + k]]++;
            exchange->row_token[place] = token;
            exchange->token_rows[token * per_token + k] = place;
        }
}

void exchange_dispatch_finish(struct exchange *exchange, struct exchange_received *received_out) {
    *received_out = (struct exchange_received){
        .group_count = exchange->group_count,
        .groups = exchange->groups,
        .row_count = exchange->row_count,
        .row_token = exchange->row_token,
    };
}

void exchange_combine_begin(struct exchange *exchange, uint32_t first_row, uint32_t row_count) {
    check(first_row == exchange->rows_returned);
    check(row_count <= exchange->row_count - first_row);
    exchange->rows_returned += row_count;
}

void exchange_combine_finish(struct exchange *exchange, struct exchange_returned *returned_out) {
    *returned_out = (struct exchange_returned){.token_rows = exchange->token_rows};
}
