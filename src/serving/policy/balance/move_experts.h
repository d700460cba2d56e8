/* SPDX-License-Identifier: Apache-2.0
 * The moves from an old map of a layer to a new one: which slot gets which expert, and its source.
 * Every expert has a slot in both maps, and all moves of a layer are adopted together, so no expert
 * is ever without one. A layer's moves never need more memory on a rank than it has slots.
 *
 * The source is a slot of the same rank if one holds the expert. Otherwise ranks of the same node
 * are preferred, because their link is faster, and of these the one that sends the fewest so far.
 */
#pragma once

#include <stdint.h>

#include "contract/expert_move.h"

/* One layer's slots, with a rank's slots contiguous: the expert in each, or EXPERT_MOVE_NOTHING.
 */
struct move_experts {
    uint32_t layer, ranks, slots_per_rank;
    uint32_t node_ranks;       /* consecutive ranks of a node; 0: one node */
    const uint32_t *from, *to; /* [ranks * slots_per_rank] */
};

/* gives[ranks] is the number of experts that each rank has sent, and is updated. Writes
 * moves_out[slots] and returns the number of moves. */
uint32_t move_experts(const struct move_experts *layer, uint32_t *gives,
                      struct expert_move *moves_out);

/* The number of moves to a rank. */
uint32_t move_experts_to(const struct expert_move *moves, uint32_t count, uint32_t rank,
                         uint32_t slots_per_rank);
