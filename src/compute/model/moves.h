/* SPDX-License-Identifier: Apache-2.0
 * Moves experts to other slots while steps run. All ranks begin the same moves between the same two
 * steps, and also adopt them between the same two steps.
 */
#pragma once

#include "base/limits.h"
#include "base/status.h"
#include "contract/expert_move.h"

struct model;

/* The counters of this rank's moves. */
struct model_moving {
    uint32_t pending;                   /* unfinished moves from or to this rank */
    uint32_t failures;                  /* failed moves to this rank */
    uint64_t failed[LIMIT_LAYERS / 64]; /* layers of the failed moves, a bit each */
    uint64_t moves, bytes;              /* to this rank since the model was opened */
    struct error error;                 /* of the first failed move */
};

/* Allocates `bytes` for moving experts. With 0, or a model without ranks, experts never move. */
enum status moves_open(struct model *model, uint64_t bytes, struct error *error);
/* Waits until other ranks have received the experts that this rank sends. */
void moves_close(struct model *model);

/* The most simultaneous moves to this rank: at least a layer's slots, or 0 if experts never
 * move. */
uint32_t moves_room(const struct model *model);

/* Begins the moves of a list. None may be under way. The moves of a layer are adjacent in the list,
 * and leave every expert at least one slot. */
void moves_begin(struct model *model, const struct expert_move *list, uint32_t count,
                 uint64_t bytes_per_second /* 0: no limit */);
/* Transfers at most one chunk in each direction. A step also calls it between matrix products. */
void moves_progress(struct model *model);
struct model_moving moves_reported(const struct model *model);
/* Uses the new slots from now on. No move may be pending on any rank. Layers with their bit set in
 * `dropped` stay as they were. */
void moves_adopt(struct model *model, const uint64_t *dropped /* [LIMIT_LAYERS / 64] */);
/* After a rank died: moves_halt stops the moves under way, and moves_abandon frees their memory.
 * Slots are as they were before moves_begin, or after moves_adopt. */
void moves_halt(struct model *model);
void moves_abandon(struct model *model);
/* Sets the map of all ranks' slots, [layers][slots of all ranks], after a rank has come back with
 * the initial contents of its slots. No other rank's slots have changed. No move may be under
 * way. */
void moves_set_map(struct model *model, const uint32_t *slot_expert);
