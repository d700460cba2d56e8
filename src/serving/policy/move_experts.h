/* SPDX-License-Identifier: Apache-2.0
 * From an old map of a layer to a new one: which slot takes which expert, and from whom. Every
 * expert has a slot in both maps, and all moves of a layer are adopted together, so no expert is
 * ever without one; a layer's moves never need more room on a rank than it has slots.
 *
 * The source is a slot of the same rank if one holds the expert; else, of the ranks that do, those of
 * the same node come first, whose link is the faster one, and of these the one that gives least so
 * far.
 */
#ifndef SERVING_POLICY_MOVE_EXPERTS_H
#define SERVING_POLICY_MOVE_EXPERTS_H

#include <stdint.h>

#include "contract/expert_move.h"

/* One layer's slots, those of a rank behind each other; the expert in each or EXPERT_MOVE_NOTHING.
 */
struct move_experts {
    uint32_t layer, ranks, slots_per_rank;
    uint32_t node_ranks;       /* of a node, consecutive; 0: one node */
    const uint32_t *from, *to; /* [ranks * slots_per_rank] */
};

/* gives[ranks]: experts that each rank gives so far, counted on. moves_out[slots]; returns how many
 * there are. */
uint32_t move_experts(const struct move_experts *layer, uint32_t *gives,
                      struct expert_move *moves_out);

/* How many of the moves come from another node; node_ranks as above. */
uint32_t move_experts_far(const struct expert_move *moves, uint32_t count, uint32_t slots_per_rank,
                          uint32_t node_ranks);

/* How many of the moves come to a rank. */
uint32_t move_experts_to(const struct expert_move *moves, uint32_t count, uint32_t rank,
                         uint32_t slots_per_rank);

#endif
