/* SPDX-License-Identifier: Apache-2.0
 * One rank of many, run alone: it receives its own tokens. Each slot gets as many rows as if all
 * ranks had the same number of tokens and chose experts evenly. So the rank's stages do the same
 * work as in a job of that size and can be timed one by one. Results are meaningless.
 *
 * Rows are copied as bytes, as among ranks. They arrive at once, or over a slow link. The link
 * transfers the bytes that this rank's tokens would send to the experts' ranks, and as many results
 * as would return, because equal ranks send and receive the same amount.
 */
#include "base/check.h"
#include "compute/exchange/dispatch_pack.h"
#include "compute/exchange/exchange_backend.h"

#include <stdlib.h>

struct loopback_exchange {
    struct exchange exchange; /* first: a struct exchange * points to both */
    uint32_t slots, slot_rows, row_count, rows_max;
    uint64_t result_bytes; /* of the results that return over the link for the tokens in progress */
    struct exchange_group *groups; /* [slots] */
    uint32_t *pair_rank;           /* [experts_per_token] of one token */
    uint32_t *row_token;           /* [rows_max] */
    uint32_t *token_rows;          /* [tokens_max][experts_per_token] */
    const char **token_data;       /* [tokens_max] */
    char *results;                 /* [rows_max][combine_bytes] */
};

static struct loopback_exchange *loopback_of(struct exchange *exchange) {
    return (struct loopback_exchange *)exchange;
}

static void close_loopback(struct exchange *exchange) {
    struct loopback_exchange *loopback = loopback_of(exchange);
    free(loopback->groups);
    free(loopback->pair_rank);
    free(loopback->row_token);
    free(loopback->token_rows);
    free(loopback->token_data);
    free(loopback->results);
    free(loopback);
}

/* The number of rows of a slot; the first slots take the remainder. */
static uint32_t loopback_rows_of(const struct loopback_exchange *loopback, uint32_t slot,
                                 uint32_t pairs) {
    if (loopback->slot_rows) return pairs ? loopback->slot_rows : 0;
    return pairs / loopback->slots + (slot < pairs % loopback->slots);
}

/* The rank of an expert's first slot. */
static uint32_t loopback_rank_of(const struct placement *placement, uint32_t layer,
                                 uint32_t expert) {
    uint32_t count;
    return *placement_replicas(placement, layer, expert, &count) / placement->slots_per_rank;
}

static bool loopback_contains(const uint32_t *ranks, uint32_t count, uint32_t rank) {
    for (uint32_t i = 0; i < count; i++)
        if (ranks[i] == rank) return true;
    return false;
}

/* The number of result rows that other ranks return for a token; a group that one rank computes is
 * one row. */
static uint32_t loopback_results_of(const struct exchange_options *options, const uint32_t *experts,
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

/* The bytes of a dispatch: each token once for each other rank with one of its experts. */
static uint64_t loopback_count_bytes(struct loopback_exchange *loopback, uint32_t layer,
                                     const uint32_t *experts, uint32_t tokens) {
    const struct exchange_options *options = &loopback->exchange.options;
    uint32_t each = options->experts_per_token, *ranks = loopback->pair_rank;
    uint64_t rows = 0, results = 0;
    for (uint32_t token = 0; token < tokens; token++, experts += each) {
        for (uint32_t i = 0; i < each; i++) {
            ranks[i] = loopback_rank_of(options->placement, layer, experts[i]);
            rows += ranks[i] != options->rank && !loopback_contains(ranks, i, ranks[i]);
        }
        results += loopback_results_of(options, experts, ranks);
    }
    loopback->result_bytes = results * options->combine_bytes;
    return rows * options->dispatch_bytes;
}

/* Counts bytes as sent and as received, and occupies the link. */
static void loopback_send(struct exchange *exchange, uint64_t bytes) {
    struct exchange_span *all = &exchange->departures[false];
    exchange->counts.bytes_sent += bytes;
    exchange->counts.bytes_received += bytes;
    exchange->counts.bytes_between_nodes += bytes;
    if (!bytes || !exchange_is_slow(exchange)) return;
    struct exchange_span departures = exchange_occupy_link(exchange, false, bytes);
    if (!all->ended_ns) all->began_ns = departures.began_ns;
    all->ended_ns = departures.ended_ns;
    all->bytes += bytes;
    exchange->link_ns += departures.ended_ns - departures.began_ns;
}

/* If each rank has many pairs, results leave in batches, as among real ranks. */
static bool expert_batch_ends(const struct loopback_exchange *loopback, uint32_t slot,
                              uint32_t pairs) {
    uint32_t expert_batch = dispatch_pack_batch_of_slot(slot, loopback->slots);
    return pairs / loopback->exchange.options.placement->ranks >= DISPATCH_EXPERT_BATCH_PAIRS &&
           (slot + 1 == loopback->slots ||
            dispatch_pack_batch_of_slot(slot + 1, loopback->slots) != expert_batch);
}

static void loopback_dispatch_begin(struct exchange *exchange, uint32_t layer,
                                    const uint32_t *experts, const float *weights, uint32_t tokens,
                                    const char *activations) {
    struct loopback_exchange *loopback = loopback_of(exchange);
    uint32_t pairs = tokens * exchange->options.experts_per_token;
    check(tokens <= exchange->options.tokens_max);
    loopback->row_count = 0;
    for (uint32_t slot = 0; slot < loopback->slots; slot++) {
        uint32_t rows = loopback_rows_of(loopback, slot, pairs);
        check(rows <= loopback->rows_max - loopback->row_count);
        loopback->groups[slot] =
            (struct exchange_group){.slot = slot,
                                    .first_row = loopback->row_count,
                                    .row_count = rows,
                                    .results_leave = expert_batch_ends(loopback, slot, pairs)};
        for (uint32_t i = 0; i < rows; i++, loopback->row_count++)
            loopback->row_token[loopback->row_count] = loopback->row_count % tokens;
    }
    for (uint32_t token = 0; token < tokens; token++)
        loopback->token_data[token] =
            activations + (size_t)token * exchange->options.dispatch_bytes;
    check(loopback->row_count > 0 || pairs == 0);
    for (uint32_t pair = 0; pair < pairs; pair++)
        loopback->token_rows[pair] = pair % loopback->row_count;
    exchange->counts.tokens_dispatched += tokens;
    exchange->counts.pairs += loopback->row_count;
    loopback_send(exchange, loopback_count_bytes(loopback, layer, experts, tokens));
}

static void loopback_dispatch_finish(struct exchange *exchange,
                                     struct exchange_received *received_out) {
    const struct loopback_exchange *loopback = loopback_of(exchange);
    *received_out = (struct exchange_received){
        .group_count = loopback->row_count ? loopback->slots : 0,
        .groups = loopback->groups,
        .row_count = loopback->row_count,
        .row_token = loopback->row_token,
        .token_data = loopback->token_data,
    };
}

static char *loopback_result(struct exchange *exchange, uint32_t row) {
    return loopback_of(exchange)->results + (size_t)row * exchange->options.combine_bytes;
}

/* Results leave when they are computed, batch by batch. */
static void loopback_combine_begin(struct exchange *exchange, uint32_t first_row,
                                   uint32_t row_count) {
    const struct loopback_exchange *loopback = loopback_of(exchange);
    check(row_count <= loopback->row_count - first_row);
    uint64_t before = loopback->result_bytes * first_row / loopback->row_count;
    loopback_send(exchange,
                  loopback->result_bytes * (first_row + row_count) / loopback->row_count - before);
}

static void loopback_combine_finish(struct exchange *exchange,
                                    struct exchange_returned *returned_out) {
    const struct loopback_exchange *loopback = loopback_of(exchange);
    *returned_out = (struct exchange_returned){.token_rows = loopback->token_rows,
                                               .results = loopback->results};
}

static bool loopback_arrived(struct exchange *exchange) {
    return true;
}

static const struct exchange_backend loopback_backend = {
    .moves_rows = true,
    .close = close_loopback,
    .dispatch_begin = loopback_dispatch_begin,
    .dispatch_finish = loopback_dispatch_finish,
    .result = loopback_result,
    .combine_begin = loopback_combine_begin,
    .combine_finish = loopback_combine_finish,
    .arrived = loopback_arrived,
};

enum status exchange_open_loopback(const struct exchange_options *options, uint32_t rows_max,
                                   struct exchange **exchange_out, struct error *error) {
    struct loopback_exchange *loopback = calloc(1, sizeof *loopback);
    if (!loopback) return error_set(error, STATUS_NO_MEMORY, "no memory for the expert exchange");
    size_t pairs = (size_t)options->tokens_max * options->experts_per_token;
    loopback->exchange.backend = &loopback_backend;
    loopback->exchange.options = *options;
    loopback->slots = options->placement->slots_per_rank;
    loopback->rows_max = rows_max > pairs ? rows_max : (uint32_t)pairs;
    loopback->groups = calloc(loopback->slots, sizeof *loopback->groups);
    loopback->pair_rank = calloc(options->experts_per_token, sizeof *loopback->pair_rank);
    loopback->row_token = calloc(loopback->rows_max, sizeof *loopback->row_token);
    loopback->token_rows = calloc(pairs, sizeof *loopback->token_rows);
    loopback->token_data = calloc(options->tokens_max, sizeof *loopback->token_data);
    loopback->results = calloc(loopback->rows_max, options->combine_bytes);
    if (!loopback->groups || !loopback->pair_rank || !loopback->row_token ||
        !loopback->token_rows || !loopback->token_data || !loopback->results) {
        error_set(error, STATUS_NO_MEMORY, "no memory for the results of %u pairs",
                  loopback->rows_max);
        close_loopback(&loopback->exchange);
        return STATUS_NO_MEMORY;
    }
    *exchange_out = &loopback->exchange;
    return STATUS_OK;
}

void exchange_loopback_rows(struct exchange *exchange, uint32_t slot_rows) {
    struct loopback_exchange *loopback = loopback_of(exchange);
    check(exchange->backend == &loopback_backend &&
          slot_rows <= loopback->rows_max / loopback->slots);
    loopback->slot_rows = slot_rows;
}
