/* SPDX-License-Identifier: Apache-2.0
 * The placement of one layer's experts during the search: the expert in each slot, and the load of
 * each rank. The replicas of an expert share its load equally.
 *
 * Slots [rank * room, (rank + 1) * room) belong to a rank. Loads are integers, scaled so that the
 * sum over a layer is near 2^46. Shares then keep 13 digits, and a share and an expert id together
 * fit into 64 bits for sorting.
 *
 * Only the balance_* files of this directory include it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define BALANCE_LOAD_BITS 46

struct balance_state {
    uint32_t expert_count, slot_count, rank_count, room; /* slot_count = rank_count * room */
    const uint64_t *loads;                               /* [expert_count] */
    uint16_t *counts;                                    /* [expert_count] replicas */
    uint64_t *shares;                                    /* [expert_count] load / count */
    uint16_t *experts;                                   /* [slot_count] expert in a slot */
    uint64_t *slot_shares;                               /* [slot_count] shares[experts[slot]] */
    uint64_t *rank_loads;                                /* [rank_count] */
    uint64_t *keys, *other_keys;                         /* [slot_count] scratch of sorts, heaps */
    uint16_t *list;                                      /* [slot_count] scratch */
};

/* A run of ranks and their slots. */
struct balance_span {
    uint32_t first_rank, rank_count;
};

/* Scales loads so that their sum, which is returned, is near 2^BALANCE_LOAD_BITS. If all are 0 they
 * count as equal. The sum of the input is below 2^64. */
uint64_t balance_state_scale(const uint64_t *loads, uint32_t count, uint64_t *scaled_out);

/* Returns the next piece of memory and moves *at to its end. */
static inline void *balance_state_cut(char **at, size_t bytes) {
    void *start = *at;
    *at += round_up_8(bytes);
    return start;
}

/* Bytes that balance_state_open takes. */
size_t balance_state_bytes(uint32_t expert_count, uint32_t slot_count, uint32_t rank_count);

/* Places the arrays in `memory` (aligned to 8). Their contents are undefined, except for the
 * loads. */
void balance_state_open(struct balance_state *state, uint32_t expert_count, uint32_t slot_count,
                        uint32_t rank_count, const uint64_t *loads, void *memory);

/* Computes replicas, shares and loads from the slots' experts. */
void balance_state_recount(struct balance_state *state);

/* Copies placement and loads to another state of the same shape. */
void balance_state_copy(struct balance_state *to, const struct balance_state *from);

bool balance_state_rank_holds(const struct balance_state *state, uint32_t rank, uint32_t expert);

/* The most loaded rank of the span; the lowest rank on a tie. */
uint32_t balance_state_busiest(const struct balance_state *state, struct balance_span span);

static inline uint64_t balance_state_max(const struct balance_state *state) {
    struct balance_span all = {0, state->rank_count};
    return state->rank_loads[balance_state_busiest(state, all)];
}

/* Sorts keys in descending order. `other` is scratch of the same length. */
void balance_state_sort(uint64_t *keys, uint64_t *other, uint32_t count);

/* Restores a max-heap after the key at `at` was lowered. */
void balance_state_sink(uint64_t *heap, uint32_t count, uint32_t at);

/* A key that sorts by share, then by ascending id. */
static inline uint64_t balance_state_key(uint64_t share, uint32_t id) {
    return share << 16 | (0xFFFF - id);
}

static inline uint32_t balance_state_key_id(uint64_t key) {
    return 0xFFFF - (uint32_t)(key & 0xFFFF);
}
