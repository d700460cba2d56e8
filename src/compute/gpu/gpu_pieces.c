/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/gpu/gpu_pieces.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/number.h"
#include "compute/exchange/exchange.h"

#include <stdlib.h>
#include <string.h>

uint32_t gpu_pieces_pairs(uint32_t ranks, uint32_t round_rows, uint32_t pairs_max) {
    uint32_t pairs = max_u32((uint32_t)divide_up(round_rows, ranks), GPU_PIECE_PAIRS);
    return pairs < pairs_max ? pairs : pairs_max;
}

uint32_t gpu_pieces_nodes_of(uint32_t ranks, uint32_t node_ranks) {
    return node_ranks > 1 ? ranks / node_ranks : 1;
}

uint32_t gpu_pieces_relay_of(uint32_t sender, uint32_t receiver, uint32_t places) {
    return receiver / places * places + sender % places;
}

bool gpu_pieces_goes_to_node(const uint32_t *slots, uint32_t per_token, uint32_t node_slots,
                             uint32_t node) {
    for (uint32_t k = 0; k < per_token; k++)
        if (slots[k] / node_slots == node) return true;
    return false;
}

uint32_t gpu_pieces_rows_to_nodes(uint32_t nodes, uint32_t rows_max, uint32_t per_token) {
    return rows_max * min_u32(nodes - 1, per_token);
}

uint32_t gpu_pieces_rows_in_round(uint32_t nodes, uint32_t places, uint32_t rows_max,
                                  uint32_t per_token, uint32_t piece_pairs) {
    uint32_t passed_on = (nodes - 1) * rows_max * min_u32(places - 1, per_token);
    return min_u32(rows_max * per_token + passed_on, (nodes * places - 1) * piece_pairs);
}

enum status gpu_pieces_open(struct gpu_pieces *pieces, uint32_t pairs_max, struct error *error) {
    uint32_t ranks = pieces->ranks;
    size_t rows = (size_t)ranks * pieces->rows_max;
    check(pieces->piece_pairs);
    pieces->first = calloc(ranks + 1, sizeof *pieces->first);
    pieces->pair_at = calloc(pairs_max, sizeof *pieces->pair_at);
    pieces->next = calloc((size_t)ranks * pieces->slots_each + 1, sizeof *pieces->next);
    pieces->seen = calloc(ranks, sizeof *pieces->seen);
    pieces->pairs = calloc(ranks, sizeof *pieces->pairs);
    pieces->rows = calloc(ranks, sizeof *pieces->rows);
    pieces->row_at = calloc(rows, sizeof *pieces->row_at);
    pieces->row_mark = calloc(rows, sizeof *pieces->row_mark);
    if (pieces->first && pieces->pair_at && pieces->next && pieces->seen && pieces->pairs &&
        pieces->rows && pieces->row_at && pieces->row_mark)
        return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory to cut rows into rounds");
}

void gpu_pieces_close(struct gpu_pieces *pieces) {
    free(pieces->first);
    free(pieces->pair_at);
    free(pieces->next);
    free(pieces->seen);
    free(pieces->pairs);
    free(pieces->rows);
    free(pieces->row_at);
    free(pieces->row_mark);
}

void gpu_pieces_sort(struct gpu_pieces *pieces, const uint32_t *slots, uint32_t pairs,
                     uint32_t *places_out) {
    uint32_t slot_count = pieces->ranks * pieces->slots_each, *next = pieces->next;
    memset(next, 0, (slot_count + 1) * sizeof *next);
    for (uint32_t pair = 0; pair < pairs; pair++) {
        if (slots[pair] == EXCHANGE_NO_SLOT) continue;
        check(slots[pair] < slot_count);
        next[slots[pair] + 1]++;
    }
    for (uint32_t slot = 0; slot < slot_count; slot++)
        next[slot + 1] += next[slot];
    for (uint32_t rank = 0; rank <= pieces->ranks; rank++)
        pieces->first[rank] = next[rank * pieces->slots_each];
    for (uint32_t pair = 0; pair < pairs; pair++) {
        if (slots[pair] == EXCHANGE_NO_SLOT) continue;
        uint32_t place = next[slots[pair]]++;
        pieces->pair_at[place] = pair;
        if (places_out) places_out[pair] = place;
    }
}

uint32_t gpu_pieces_rounds(const struct gpu_pieces *pieces, uint32_t most) {
    return (uint32_t)divide_up(most, pieces->piece_pairs);
}

uint32_t gpu_pieces_most(const struct gpu_pieces *pieces) {
    uint32_t most = 0;
    for (uint32_t rank = 0; rank < pieces->ranks; rank++)
        most = max_u32(most, pieces->first[rank + 1] - pieces->first[rank]);
    return most;
}

void gpu_pieces_begin(struct gpu_pieces *pieces, uint32_t round) {
    size_t rows = (size_t)pieces->ranks * pieces->rows_max;
    pieces->round = round;
    memset(pieces->seen, 0, pieces->ranks * sizeof *pieces->seen);
    memset(pieces->pairs, 0, pieces->ranks * sizeof *pieces->pairs);
    memset(pieces->rows, 0, pieces->ranks * sizeof *pieces->rows);
    if (++pieces->mark) return;
    memset(pieces->row_mark, 0, rows * sizeof *pieces->row_mark); /* it has gone round */
    pieces->mark = 1;
}

uint32_t gpu_pieces_given(const struct gpu_pieces *pieces, uint32_t rank, uint32_t *first_out) {
    uint32_t begin = pieces->first[rank], count = pieces->first[rank + 1] - begin;
    uint64_t before = (uint64_t)pieces->round * pieces->piece_pairs;
    if (before >= count) return 0;
    *first_out = begin + (uint32_t)before;
    count -= (uint32_t)before;
    return count < pieces->piece_pairs ? count : pieces->piece_pairs;
}

uint32_t gpu_pieces_take(struct gpu_pieces *pieces, uint32_t sender) {
    uint32_t number = pieces->seen[sender]++;
    if (number / pieces->piece_pairs != pieces->round) return UINT32_MAX;
    pieces->pairs[sender]++;
    return number % pieces->piece_pairs;
}

bool gpu_pieces_row(struct gpu_pieces *pieces, uint32_t rank, uint32_t row, uint32_t *number_out) {
    check(rank < pieces->ranks && row < pieces->rows_max);
    size_t at = (size_t)rank * pieces->rows_max + row;
    bool is_new = pieces->row_mark[at] != pieces->mark;
    if (is_new) {
        pieces->row_mark[at] = pieces->mark;
        pieces->row_at[at] = pieces->rows[rank]++;
    }
    *number_out = pieces->row_at[at];
    return is_new;
}
