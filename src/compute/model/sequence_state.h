/* SPDX-License-Identifier: Apache-2.0
 * What a V4 sequence keeps besides its pages, for each slot of rows (struct step_row): in each
 * layer the window's rows, a ring of the last tokens, and the sums of compressors' open groups
 * (compressor.h). The size does not depend on the sequence's length. A row continues its slot's
 * state. It may also repeat or drop the last STATE_REWIND tokens of the row before, as rejected
 * drafts and answers' rows that come again do: sums are kept for each of them, and the rings have
 * that many rows more.
 *
 * No prefix can be taken from elsewhere: a row of position 0 begins anew, and any other must follow
 * the slot's last row (sequence_state_check).
 */
#pragma once

#include "compute/weights/shape.h"
#include "contract/step_plan.h"

#define STATE_REWIND STEP_ROW_TOKENS
#define STATE_SUMS (STATE_REWIND + 1)
#define STATE_IDS 16 /* last folded ids of a slot (engram.h) */

_Static_assert(STATE_IDS >= STATE_REWIND + ENGRAM_NGRAM_MAX - 1, "n-grams begin before a row");

struct sequence_state {
    char *memory; /* [slots][slot_bytes] */
    size_t mapped_bytes, slot_bytes;
    uint32_t slots, ring_rows;
    size_t row_bytes;             /* of a ring */
    size_t ring[LIMIT_LAYERS];    /* offsets in a slot: [ring_rows][row_bytes] */
    size_t sums[LIMIT_LAYERS][2]; /* [STATE_SUMS][sums_count] floats: entries, index keys */
    uint32_t sums_count[LIMIT_LAYERS][2];
    /* [slots] one past the slot's last position, and past the last one since it began at 0: rows
     * behind that one may have been written over those before it */
    uint32_t *ends, *highest;
    uint32_t *ids; /* [slots][STATE_IDS] by position */
};

/* The state of `layers` layers, MTP layers included. */
enum status sequence_state_open(struct sequence_state *state, const struct shape *shape,
                                uint32_t layers, uint32_t slots, size_t row_bytes,
                                struct error *error);
void sequence_state_close(struct sequence_state *state);
/* Bytes of a slot. */
size_t sequence_state_bytes(const struct shape *shape, uint32_t layers, size_t row_bytes);

/* Refuses a row that does not continue its slot's state, with an error that names it. */
enum status sequence_state_check(const struct sequence_state *state, const struct step_plan *plan,
                                 uint32_t row, struct error *error);
/* Notes that the slot has the tokens [first, end) from now on, behind those before them. */
void sequence_state_note(struct sequence_state *state, uint32_t slot, uint32_t first, uint32_t end);

/* The ring's row of a position. */
static inline void *sequence_state_row(const struct sequence_state *state, uint32_t slot,
                                       uint32_t layer, uint32_t position) {
    return state->memory + slot * state->slot_bytes + state->ring[layer] +
           position % state->ring_rows * state->row_bytes;
}

/* The sums of open groups as they are before a position; which: 0 entries, 1 index keys. */
static inline float *sequence_state_sums(const struct sequence_state *state, uint32_t slot,
                                         uint32_t layer, uint32_t which, uint32_t position) {
    return (float *)(void *)(state->memory + slot * state->slot_bytes + state->sums[layer][which]) +
           (size_t)(position % STATE_SUMS) * state->sums_count[layer][which];
}
