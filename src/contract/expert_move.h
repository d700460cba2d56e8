/* SPDX-License-Identifier: Apache-2.0
 * An expert's move: a slot of a layer gets another expert's weights. A list of them is decided by
 * serving/policy/balance/move_experts and carried out by every rank's model (compute/model/moves.h).
 */
#ifndef CONTRACT_EXPERT_MOVE_H
#define CONTRACT_EXPERT_MOVE_H

#include <stdint.h>

#define EXPERT_MOVE_NOTHING UINT32_MAX         /* as an expert: the slot is to be empty */
#define EXPERT_MOVE_FROM_CHECKPOINT UINT32_MAX /* as a source */

struct expert_move {
    uint32_t layer;
    uint32_t slot;   /* of all ranks' in the layer: the one that changes */
    uint32_t expert; /* what it holds then, or EXPERT_MOVE_NOTHING */
    uint32_t from;   /* a slot of the layer that holds it now, or EXPERT_MOVE_FROM_CHECKPOINT */
};

#endif
