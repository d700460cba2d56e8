/* SPDX-License-Identifier: Apache-2.0
 * Lists the moves from the old expert map of a layer to a new one: the slot, its new expert, and
 * the slot that sends the weights. Every expert has a slot in both maps, and all moves of a layer
 * take effect together, so no expert is ever without a slot. The moves of a layer never need more
 * memory on a rank than it has slots.
 *
 * The source is a slot of the same rank if one holds the expert. Otherwise ranks of the same node
 * are preferred, because their link is faster. Of several ranks, the one that has sent the fewest
 * experts so far is used.
 */
#pragma once

#include <stdint.h>

#include "contract/expert_move.h"

/* The slots of one layer, with those of a rank contiguous. Each has an expert, or
 * EXPERT_MOVE_NOTHING. */
struct move_experts {
    uint32_t layer, ranks, slots_per_rank;
    uint32_t node_ranks;       /* consecutive ranks of a node; 0: one node */
    const uint32_t *from, *to; /* [ranks * slots_per_rank] */
};

/* Writes moves_out[slots] and returns the number of moves. gives[ranks] is the number of experts
 * that each rank has sent, and is updated. */
uint32_t move_experts(const struct move_experts *layer, uint32_t *gives,
                      struct expert_move *moves_out);

/* The number of moves to a rank. */
uint32_t move_experts_to(const struct expert_move *moves, uint32_t count, uint32_t rank,
                         uint32_t slots_per_rank);
