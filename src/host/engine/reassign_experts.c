/* SPDX-License-Identifier: Apache-2.0 */
#include "host/engine/reassign_experts.h"

#include "base/check.h"

#include <string.h>

/* Finds a slot that is empty or has an expert with another slot on a living rank, on the rank with
 * the fewest reads. */
static uint32_t reassign_experts_free_slot(const struct rebalance_shape *shape, const bool *lost,
                                           const uint32_t *copies, const uint32_t *reads,
                                           const uint32_t *map) {
    uint32_t best = UINT32_MAX;
    for (uint32_t slot = 0; slot < shape->ranks * shape->slots_per_rank; slot++) {
        uint32_t rank = slot / shape->slots_per_rank;
        if (lost[rank] || (map[slot] != REBALANCE_EMPTY && copies[map[slot]] < 2)) continue;
        if (best == UINT32_MAX || reads[rank] < reads[best / shape->slots_per_rank]) best = slot;
    }
    check(best != UINT32_MAX);
    return best;
}

uint32_t reassign_experts(const struct rebalance_shape *shape, const bool *lost,
                          const uint32_t *from, uint32_t *copies, uint32_t *reads,
                          uint32_t *to_out) {
    uint32_t slots = shape->ranks * shape->slots_per_rank, count = 0;
    check(rebalance_fits(shape, lost));
    memset(copies, 0, shape->experts * sizeof *copies);
    memset(reads, 0, shape->ranks * sizeof *reads);
    for (uint32_t slot = 0; slot < slots; slot++) {
        to_out[slot] = lost[slot / shape->slots_per_rank] ? REBALANCE_EMPTY : from[slot];
        if (to_out[slot] != REBALANCE_EMPTY) copies[to_out[slot]]++;
    }
    for (uint32_t expert = 0; expert < shape->experts; expert++) {
        if (copies[expert]) continue;
        uint32_t slot = reassign_experts_free_slot(shape, lost, copies, reads, to_out);
        if (to_out[slot] != REBALANCE_EMPTY) copies[to_out[slot]]--;
        to_out[slot] = expert;
        copies[expert] = 1;
        reads[slot / shape->slots_per_rank]++;
        count++;
    }
    return count;
}
