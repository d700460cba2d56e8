/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/move_experts.h"

#include <stdbool.h>

#include "base/check.h"

/* The node of a rank; 0 for all if there is one node. */
static uint32_t move_experts_node_of(uint32_t rank, uint32_t node_ranks) {
    return node_ranks ? rank / node_ranks : 0;
}

/* The slot that sends the expert to `slot`. */
static uint32_t source_of(const struct move_experts *layer, uint32_t expert, uint32_t slot,
                          const uint32_t *gives) {
    uint32_t room = layer->slots_per_rank, to = slot / room, best = UINT32_MAX;
    bool best_is_near = false;
    for (uint32_t from = 0; from < layer->ranks * room; from++) {
        if (layer->from[from] != expert) continue;
        uint32_t rank = from / room;
        bool near = move_experts_node_of(rank, layer->node_ranks) ==
                    move_experts_node_of(to, layer->node_ranks);
        if (rank == to) return from;
        bool less = best == UINT32_MAX || gives[rank] < gives[best / room];
        if (near == best_is_near ? !less : best_is_near) continue;
        best = from;
        best_is_near = near;
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
