/* SPDX-License-Identifier: Apache-2.0
 * A move of an expert: a slot of a layer receives the weights of another expert.
 * serving/policy/balance/move_experts decides a list of moves; the model of each rank performs it
 * (compute/model/moves.h).
 */
#pragma once

#include <stdint.h>

#define EXPERT_MOVE_NOTHING UINT32_MAX         /* value of `expert`: the slot becomes empty */
#define EXPERT_MOVE_FROM_CHECKPOINT UINT32_MAX /* value of `from` */

struct expert_move {
    uint32_t layer;
    uint32_t slot;   /* slot to change, numbered over all ranks of the layer */
    uint32_t expert; /* expert that the slot holds after the move, or EXPERT_MOVE_NOTHING */
    /* slot of the layer that holds the expert before the move, or EXPERT_MOVE_FROM_CHECKPOINT */
    uint32_t from;
};
