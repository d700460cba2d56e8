/* SPDX-License-Identifier: Apache-2.0
 * Experts change slots while steps run. All ranks get the same moves between the same two steps,
 * and adopt them between the same two steps.
 */
#pragma once

#include "base/limits.h"
#include "base/status.h"
#include "contract/expert_move.h"

struct model;

/* The counters of this rank's moves. */
struct model_moving {
    uint32_t pending;                   /* moves that it gives or takes and that are not over */
    uint32_t failures;                  /* moves that were to come here and failed */
    uint64_t failed[LIMIT_LAYERS / 64]; /* layers of the failed moves, a bit each */
    uint64_t moves, bytes;              /* what came here since the model was opened */
    struct error error;                 /* of the first failed move */
};

/* Room for `bytes` of experts on their way; 0, or a model without ranks: none ever move. */
enum status moves_open(struct model *model, uint64_t bytes, struct error *error);
/* Waits until the others have what this rank gives. */
void moves_close(struct model *model);

/* Moves that may come to this rank at once: at least a layer's slots; 0: none may. */
uint32_t moves_room(const struct model *model);

/* Begins the moves of a list; none are under way. Those of a layer stand together, and leave every
 * expert a slot. */
void moves_begin(struct model *model, const struct expert_move *list, uint32_t count,
                 uint64_t bytes_per_second /* 0: any */);
/* Moves what is under way on by a chunk each way at most; a step does so, too, between products. */
void moves_progress(struct model *model);
struct model_moving moves_reported(const struct model *model);
/* The new slots count from now on; no move is pending on any rank. A layer with its bit set in
 * `dropped` stays as it was. */
void moves_adopt(struct model *model, const uint64_t *dropped /* [LIMIT_LAYERS / 64] */);
/* A rank has died: what is under way goes no further, until moves_abandon gives its room back.
 * Slots are as they were before moves_begin, or after moves_adopt. */
void moves_halt(struct model *model);
void moves_abandon(struct model *model);
/* The map of all ranks' slots is this one from now on: [layers][slots of all ranks]; none are under
 * way. A rank has come back with the initial contents of its slots; no other rank's slots have
 * changed. */
void moves_set_map(struct model *model, const uint32_t *slot_expert);
