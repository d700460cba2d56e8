/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/gpu/gpu_rounds.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/number.h"
#include "compute/exchange/exchange.h"

#include <stdlib.h>
#include <string.h>

uint32_t gpu_rounds_chunk_pairs(uint32_t ranks, uint32_t round_rows, uint32_t pairs_max) {
    uint32_t pairs = max_u32((uint32_t)divide_up(round_rows, ranks), GPU_CHUNK_PAIRS);
    return pairs < pairs_max ? pairs : pairs_max;
}

uint32_t gpu_rounds_nodes_of(uint32_t ranks, uint32_t node_ranks) {
    return node_ranks > 1 ? ranks / node_ranks : 1;
}

uint32_t gpu_rounds_relay_of(uint32_t sender, uint32_t receiver, uint32_t node_ranks) {
    return receiver / node_ranks * node_ranks + sender % node_ranks;
}

bool gpu_rounds_goes_to_node(const uint32_t *slots, uint32_t per_token, uint32_t node_slots,
                             uint32_t node) {
    for (uint32_t k = 0; k < per_token; k++)
        if (slots[k] / node_slots == node) return true;
    return false;
}

uint32_t gpu_rounds_rows_to_nodes(uint32_t nodes, uint32_t rows_max, uint32_t per_token) {
    return rows_max * min_u32(nodes - 1, per_token);
}

uint32_t gpu_rounds_rows_in_round(uint32_t nodes, uint32_t node_ranks, uint32_t rows_max,
                                  uint32_t per_token, uint32_t chunk_pairs) {
    uint32_t passed_on = (nodes - 1) * rows_max * min_u32(node_ranks - 1, per_token);
    return min_u32(rows_max * per_token + passed_on, (nodes * node_ranks - 1) * chunk_pairs);
}

enum status gpu_rounds_open(struct gpu_rounds *rounds, uint32_t pairs_max, struct error *error) {
    uint32_t ranks = rounds->ranks;
    size_t rows = (size_t)ranks * rounds->rows_max;
    check(rounds->chunk_pairs);
    rounds->first = calloc(ranks + 1, sizeof *rounds->first);
    rounds->pair_at = calloc(pairs_max, sizeof *rounds->pair_at);
    rounds->next = calloc((size_t)ranks * rounds->slots_each + 1, sizeof *rounds->next);
    rounds->seen = calloc(ranks, sizeof *rounds->seen);
    rounds->pairs = calloc(ranks, sizeof *rounds->pairs);
    rounds->rows = calloc(ranks, sizeof *rounds->rows);
    rounds->row_at = calloc(rows, sizeof *rounds->row_at);
    rounds->row_mark = calloc(rows, sizeof *rounds->row_mark);
    if (rounds->first && rounds->pair_at && rounds->next && rounds->seen && rounds->pairs &&
        rounds->rows && rounds->row_at && rounds->row_mark)
        return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory to cut rows into rounds");
}

void gpu_rounds_close(struct gpu_rounds *rounds) {
    free(rounds->first);
    free(rounds->pair_at);
    free(rounds->next);
    free(rounds->seen);
    free(rounds->pairs);
    free(rounds->rows);
    free(rounds->row_at);
    free(rounds->row_mark);
}

void gpu_rounds_sort(struct gpu_rounds *rounds, const uint32_t *slots, uint32_t pairs,
                     uint32_t *places_out) {
    uint32_t slot_count = rounds->ranks * rounds->slots_each, *next = rounds->next;
    memset(next, 0, (slot_count + 1) * sizeof *next);
    for (uint32_t pair = 0; pair < pairs; pair++) {
        if (slots[pair] == EXCHANGE_NO_SLOT) continue;
        check(slots[pair] < slot_count);
        next[slots[pair] + 1]++;
    }
    for (uint32_t slot = 0; slot < slot_count; slot++)
        next[slot + 1] += next[slot];
    for (uint32_t rank = 0; rank <= rounds->ranks; rank++)
        rounds->first[rank] = next[rank * rounds->slots_each];
    for (uint32_t pair = 0; pair < pairs; pair++) {
        if (slots[pair] == EXCHANGE_NO_SLOT) continue;
        uint32_t place = next[slots[pair]]++;
        rounds->pair_at[place] = pair;
        if (places_out) places_out[pair] = place;
    }
}

uint32_t gpu_rounds_count(const struct gpu_rounds *rounds, uint32_t most) {
    return (uint32_t)divide_up(most, rounds->chunk_pairs);
}

uint32_t gpu_rounds_most_pairs(const struct gpu_rounds *rounds) {
    uint32_t most = 0;
    for (uint32_t rank = 0; rank < rounds->ranks; rank++)
        most = max_u32(most, rounds->first[rank + 1] - rounds->first[rank]);
    return most;
}

void gpu_rounds_begin(struct gpu_rounds *rounds, uint32_t round) {
    size_t rows = (size_t)rounds->ranks * rounds->rows_max;
    rounds->round = round;
    memset(rounds->seen, 0, rounds->ranks * sizeof *rounds->seen);
    memset(rounds->pairs, 0, rounds->ranks * sizeof *rounds->pairs);
    memset(rounds->rows, 0, rounds->ranks * sizeof *rounds->rows);
    if (++rounds->mark) return;
    memset(rounds->row_mark, 0,
           rows * sizeof *rounds->row_mark); /* the counter has wrapped around */
    rounds->mark = 1;
}

uint32_t gpu_rounds_to_send(const struct gpu_rounds *rounds, uint32_t rank, uint32_t *first_out) {
    uint32_t begin = rounds->first[rank], count = rounds->first[rank + 1] - begin;
    uint64_t before = (uint64_t)rounds->round * rounds->chunk_pairs;
    if (before >= count) return 0;
    *first_out = begin + (uint32_t)before;
    count -= (uint32_t)before;
    return count < rounds->chunk_pairs ? count : rounds->chunk_pairs;
}

uint32_t gpu_rounds_receive(struct gpu_rounds *rounds, uint32_t sender) {
    uint32_t number = rounds->seen[sender]++;
    if (number / rounds->chunk_pairs != rounds->round) return UINT32_MAX;
    rounds->pairs[sender]++;
    return number % rounds->chunk_pairs;
}

bool gpu_rounds_row(struct gpu_rounds *rounds, uint32_t rank, uint32_t row, uint32_t *number_out) {
    check(rank < rounds->ranks && row < rounds->rows_max);
    size_t at = (size_t)rank * rounds->rows_max + row;
    bool is_new = rounds->row_mark[at] != rounds->mark;
    if (is_new) {
        rounds->row_mark[at] = rounds->mark;
        rounds->row_at[at] = rounds->rows[rank]++;
    }
    *number_out = rounds->row_at[at];
    return is_new;
}
