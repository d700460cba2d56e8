/* SPDX-License-Identifier: Apache-2.0
 * The exchange of one rank of many when the others are not there: what comes back is the rank's own
 * tokens. Each slot gets as many rows as it would if all ranks had as many tokens and chose experts
 * evenly, so the rank's stages do the work that they would do in a job of that size, and can be
 * timed one by one; results mean nothing. Rows are carried as bytes, as among ranks, and travel in
 * no time.
 */
#include "base/check.h"
#include "compute/exchange/carrier.h"

#include <stdlib.h>

struct echo {
    struct exchange exchange; /* first: a struct exchange * points to both */
    uint32_t slots, slot_rows, row_count, rows_max;
    struct exchange_group *groups; /* [slots] */
    uint32_t *row_token;           /* [rows_max] */
    uint32_t *token_rows;          /* [tokens_max][experts_per_token] */
    const char **token_data;       /* [tokens_max] */
    char *results;                 /* [rows_max][combine_bytes] */
};

static struct echo *echo_of(struct exchange *exchange) {
    return (struct echo *)exchange;
}

static void close_echo(struct exchange *exchange) {
    struct echo *echo = echo_of(exchange);
    free(echo->groups);
    free(echo->row_token);
    free(echo->token_rows);
    free(echo->token_data);
    free(echo->results);
    free(echo);
}

/* Rows of a slot; the first slots take what cannot be shared out evenly. */
static uint32_t rows_of(const struct echo *echo, uint32_t slot, uint32_t pairs) {
    if (echo->slot_rows) return pairs ? echo->slot_rows : 0;
    return pairs / echo->slots + (slot < pairs % echo->slots);
}

static void dispatch_begin(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                           const float *weights, uint32_t tokens, const char *activations) {
    struct echo *echo = echo_of(exchange);
    uint32_t pairs = tokens * exchange->options.experts_per_token;
    check(tokens <= exchange->options.tokens_max);
    echo->row_count = 0;
    for (uint32_t slot = 0; slot < echo->slots; slot++) {
        uint32_t rows = rows_of(echo, slot, pairs);
        check(rows <= echo->rows_max - echo->row_count);
        echo->groups[slot] =
            (struct exchange_group){.slot = slot, .first_row = echo->row_count, .row_count = rows};
        for (uint32_t i = 0; i < rows; i++, echo->row_count++)
            echo->row_token[echo->row_count] = echo->row_count % tokens;
    }
    for (uint32_t token = 0; token < tokens; token++)
        echo->token_data[token] = activations + (size_t)token * exchange->options.dispatch_bytes;
    check(echo->row_count > 0 || pairs == 0);
    for (uint32_t pair = 0; pair < pairs; pair++)
        echo->token_rows[pair] = pair % echo->row_count;
    exchange->counts.tokens_dispatched += tokens;
    exchange->counts.pairs += echo->row_count;
}

static void dispatch_finish(struct exchange *exchange, struct exchange_received *received_out) {
    const struct echo *echo = echo_of(exchange);
    *received_out = (struct exchange_received){
        .group_count = echo->row_count ? echo->slots : 0,
        .groups = echo->groups,
        .row_count = echo->row_count,
        .row_token = echo->row_token,
        .token_data = echo->token_data,
    };
}

static char *result(struct exchange *exchange, uint32_t row) {
    return echo_of(exchange)->results + (size_t)row * exchange->options.combine_bytes;
}

static void combine_begin(struct exchange *exchange, uint32_t first_row, uint32_t row_count) {
    check(row_count <= echo_of(exchange)->row_count - first_row);
}

static void combine_finish(struct exchange *exchange, struct exchange_returned *returned_out) {
    const struct echo *echo = echo_of(exchange);
    *returned_out =
        (struct exchange_returned){.token_rows = echo->token_rows, .results = echo->results};
}

static bool arrived(struct exchange *exchange) {
    return true;
}

static const struct carrier echo_carrier = {
    .carries = true,
    .close = close_echo,
    .dispatch_begin = dispatch_begin,
    .dispatch_finish = dispatch_finish,
    .result = result,
    .combine_begin = combine_begin,
    .combine_finish = combine_finish,
    .arrived = arrived,
};

enum status exchange_open_echo(const struct exchange_options *options, uint32_t rows_max,
                               struct exchange **exchange_out, struct error *error) {
    struct echo *echo = calloc(1, sizeof *echo);
    if (!echo) return error_set(error, STATUS_NO_MEMORY, "no memory for the expert exchange");
    size_t pairs = (size_t)options->tokens_max * options->experts_per_token;
    echo->exchange.carrier = &echo_carrier;
    echo->exchange.options = *options;
    echo->slots = options->placement->slots_per_rank;
    echo->rows_max = rows_max > pairs ? rows_max : (uint32_t)pairs;
    echo->groups = calloc(echo->slots, sizeof *echo->groups);
    echo->row_token = calloc(echo->rows_max, sizeof *echo->row_token);
    echo->token_rows = calloc(pairs, sizeof *echo->token_rows);
    echo->token_data = calloc(options->tokens_max, sizeof *echo->token_data);
    echo->results = calloc(echo->rows_max, options->combine_bytes);
    if (!echo->groups || !echo->row_token || !echo->token_rows || !echo->token_data ||
        !echo->results) {
        error_set(error, STATUS_NO_MEMORY, "no memory for the results of %u pairs", echo->rows_max);
        close_echo(&echo->exchange);
        return STATUS_NO_MEMORY;
    }
    *exchange_out = &echo->exchange;
    return STATUS_OK;
}

void exchange_echo_rows(struct exchange *exchange, uint32_t slot_rows) {
    struct echo *echo = echo_of(exchange);
    check(exchange->carrier == &echo_carrier && slot_rows <= echo->rows_max / echo->slots);
    echo->slot_rows = slot_rows;
}
