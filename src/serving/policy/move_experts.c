/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/move_experts.h"

#include "base/check.h"

/* The slot that gives the expert to `slot`. */
static uint32_t source_of(const struct move_experts *layer, uint32_t expert, uint32_t slot,
                          const uint32_t *gives) {
    uint32_t slots = layer->ranks * layer->slots_per_rank, best = UINT32_MAX;
    for (uint32_t from = 0; from < slots; from++) {
        if (layer->from[from] != expert) continue;
        uint32_t rank = from / layer->slots_per_rank;
        if (rank == slot / layer->slots_per_rank) return from;
        if (best == UINT32_MAX || gives[rank] < gives[best / layer->slots_per_rank]) best = from;
    }
    check(best != UINT32_MAX);
    return best;
}

uint32_t move_experts(const struct move_experts *layer, uint32_t *gives,
                      struct expert_move *moves_out) {
    uint32_t slots = layer->ranks * layer->slots_per_rank, count = 0;
    for (uint32_t slot = 0; slot < slots; slot++) {
        uint32_t expert = layer->to[slot], from = 0;
        if (expert == layer->from[slot]) continue;
        if (expert != EXPERT_MOVE_NOTHING) {
            from = source_of(layer, expert, slot, gives);
            if (from / layer->slots_per_rank != slot / layer->slots_per_rank)
                gives[from / layer->slots_per_rank]++;
        }
        moves_out[count++] = (struct expert_move){layer->layer, slot, expert, from};
    }
    return count;
}

uint32_t move_experts_to(const struct expert_move *moves, uint32_t count, uint32_t rank,
                         uint32_t slots_per_rank) {
    uint32_t to = 0;
    for (uint32_t i = 0; i < count; i++)
        to += moves[i].slot / slots_per_rank == rank && moves[i].expert != EXPERT_MOVE_NOTHING;
    return to;
}
