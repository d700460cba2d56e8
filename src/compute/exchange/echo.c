/* SPDX-License-Identifier: Apache-2.0
 * The exchange of one rank of many when the others are not there: what comes back is the rank's own
 * tokens. Each slot gets as many rows as it would if all ranks had as many tokens and chose experts
 * evenly, so the rank's stages do the work that they would do in a job of that size, and can be
 * timed one by one; results mean nothing. Rows are carried as bytes, as among ranks, and travel in
 * no time, or over a slow link. That is busy with what the rank's tokens would send to the experts'
 * ranks, and with as many results as would come back for them, since equal ranks send as much as
 * they get.
 */
#include "base/check.h"
#include "compute/exchange/carrier.h"
#include "compute/exchange/hop.h"

#include <stdlib.h>

struct echo {
    struct exchange exchange; /* first: a struct exchange * points to both */
    uint32_t slots, slot_rows, row_count, rows_max;
    uint64_t result_bytes;         /* that the link carries home for the tokens under way */
    struct exchange_group *groups; /* [slots] */
    uint32_t *pair_rank;           /* [experts_per_token] of the token that is looked at */
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
    free(echo->pair_rank);
    free(echo->row_token);
    free(echo->token_rows);
    free(echo->token_data);
    free(echo->results);
    free(echo);
}

/* Rows of a slot; the first slots take what cannot be shared out evenly. */
static uint32_t echo_rows_of(const struct echo *echo, uint32_t slot, uint32_t pairs) {
    if (echo->slot_rows) return pairs ? echo->slot_rows : 0;
    return pairs / echo->slots + (slot < pairs % echo->slots);
}

/* The rank of an expert's first slot. */
static uint32_t echo_rank_of(const struct placement *placement, uint32_t layer, uint32_t expert) {
    uint32_t count;
    return *placement_replicas(placement, layer, expert, &count) / placement->slots_per_rank;
}

static bool echo_contains(const uint32_t *ranks, uint32_t count, uint32_t rank) {
    for (uint32_t i = 0; i < count; i++)
        if (ranks[i] == rank) return true;
    return false;
}

/* Rows of a token's experts that other ranks send back: one for a group that a rank has whole. */
static uint32_t echo_results_of(const struct exchange_options *options, const uint32_t *experts,
                                const uint32_t *ranks) {
    uint32_t results = 0, run = 1;
    for (uint32_t i = 0; i < options->experts_per_token; i += run) {
        uint32_t others = 0, left = options->experts_per_token - i;
        bool together = options->group_experts > 0;
        if (together) run = exchange_group_run(experts + i, left, options->group_experts);
        for (uint32_t k = i; k < i + run; k++) {
            others += ranks[k] != options->rank;
            together = together && ranks[k] == ranks[i];
        }
        results += together && others ? 1 : others;
    }
    return results;
}

/* The bytes of a dispatch: each token once for each other rank that has one of its experts. */
static uint64_t echo_count_bytes(struct echo *echo, uint32_t layer, const uint32_t *experts,
                                 uint32_t tokens) {
    const struct exchange_options *options = &echo->exchange.options;
    uint32_t each = options->experts_per_token, *ranks = echo->pair_rank;
    uint64_t rows = 0, results = 0;
    for (uint32_t token = 0; token < tokens; token++, experts += each) {
        for (uint32_t i = 0; i < each; i++) {
            ranks[i] = echo_rank_of(options->placement, layer, experts[i]);
            rows += ranks[i] != options->rank && !echo_contains(ranks, i, ranks[i]);
        }
        results += echo_results_of(options, experts, ranks);
    }
    echo->result_bytes = results * options->combine_bytes;
    return rows * options->dispatch_bytes;
}

/* Bytes that leave, as many of which come. */
static void echo_send(struct exchange *exchange, uint64_t bytes) {
    struct exchange_span *all = &exchange->leaves[false];
    exchange->counts.bytes_sent += bytes;
    exchange->counts.bytes_received += bytes;
    exchange->counts.bytes_between_nodes += bytes;
    if (!bytes || !exchange_is_slow(exchange)) return;
    struct exchange_span leaves = exchange_take_link(exchange, false, bytes);
    if (!all->ended_ns) all->began_ns = leaves.began_ns;
    all->ended_ns = leaves.ended_ns;
    all->bytes += bytes;
    exchange->link_ns += leaves.ended_ns - leaves.began_ns;
}

/* With many pairs for each rank, results leave by parts of the slots, like among real ranks. */
static bool expert_batch_ends(const struct echo *echo, uint32_t slot, uint32_t pairs) {
    uint32_t expert_batch = hop_expert_batch_of_slot(slot, echo->slots);
    return pairs / echo->exchange.options.placement->ranks >= HOP_EXPERT_BATCH_PAIRS &&
           (slot + 1 == echo->slots ||
            hop_expert_batch_of_slot(slot + 1, echo->slots) != expert_batch);
}

static void echo_dispatch_begin(struct exchange *exchange, uint32_t layer, const uint32_t *experts,
                                const float *weights, uint32_t tokens, const char *activations) {
    struct echo *echo = echo_of(exchange);
    uint32_t pairs = tokens * exchange->options.experts_per_token;
    check(tokens <= exchange->options.tokens_max);
    echo->row_count = 0;
    for (uint32_t slot = 0; slot < echo->slots; slot++) {
        uint32_t rows = echo_rows_of(echo, slot, pairs);
        check(rows <= echo->rows_max - echo->row_count);
        echo->groups[slot] =
            (struct exchange_group){.slot = slot,
                                    .first_row = echo->row_count,
                                    .row_count = rows,
                                    .results_leave = expert_batch_ends(echo, slot, pairs)};
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
    echo_send(exchange, echo_count_bytes(echo, layer, experts, tokens));
}

static void echo_dispatch_finish(struct exchange *exchange,
                                 struct exchange_received *received_out) {
    const struct echo *echo = echo_of(exchange);
    *received_out = (struct exchange_received){
        .group_count = echo->row_count ? echo->slots : 0,
        .groups = echo->groups,
        .row_count = echo->row_count,
        .row_token = echo->row_token,
        .token_data = echo->token_data,
    };
}

static char *echo_result(struct exchange *exchange, uint32_t row) {
    return echo_of(exchange)->results + (size_t)row * exchange->options.combine_bytes;
}

/* Results leave as they are handed over, in waves. */
static void echo_combine_begin(struct exchange *exchange, uint32_t first_row, uint32_t row_count) {
    const struct echo *echo = echo_of(exchange);
    check(row_count <= echo->row_count - first_row);
    uint64_t before = echo->result_bytes * first_row / echo->row_count;
    echo_send(exchange, echo->result_bytes * (first_row + row_count) / echo->row_count - before);
}

static void echo_combine_finish(struct exchange *exchange, struct exchange_returned *returned_out) {
    const struct echo *echo = echo_of(exchange);
    *returned_out =
        (struct exchange_returned){.token_rows = echo->token_rows, .results = echo->results};
}

static bool echo_arrived(struct exchange *exchange) {
    return true;
}

static const struct carrier echo_carrier = {
    .forwards = true,
    .close = close_echo,
    .dispatch_begin = echo_dispatch_begin,
    .dispatch_finish = echo_dispatch_finish,
    .result = echo_result,
    .combine_begin = echo_combine_begin,
    .combine_finish = echo_combine_finish,
    .arrived = echo_arrived,
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
    echo->pair_rank = calloc(options->experts_per_token, sizeof *echo->pair_rank);
    echo->row_token = calloc(echo->rows_max, sizeof *echo->row_token);
    echo->token_rows = calloc(pairs, sizeof *echo->token_rows);
    echo->token_data = calloc(options->tokens_max, sizeof *echo->token_data);
    echo->results = calloc(echo->rows_max, options->combine_bytes);
    if (!echo->groups || !echo->pair_rank || !echo->row_token || !echo->token_rows ||
        !echo->token_data || !echo->results) {
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
