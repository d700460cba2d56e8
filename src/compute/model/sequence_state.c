/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/sequence_state.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/check.h"
#include "compute/model/compressor.h"

static void lay_out(struct sequence_state *state, const struct shape *shape, uint32_t layers,
                    size_t row_bytes) {
    size_t at = 0;
    state->row_bytes = row_bytes;
    state->ring_rows = shape->window + STATE_REWIND;
    for (uint32_t layer = 0; layer < layers; layer++) {
        const struct layer_kind *kind = &shape->layer_kinds[layer];
        state->ring[layer] = at;
        at += round_up(state->ring_rows * row_bytes, 64);
        const bool entries = kind->ratio && kind->entry_source == layer;
        const bool keys = entries && kind->index_source == layer && shape->overlaps;
        const uint32_t widths[] = {entries ? shape_kv_width(shape) : 0,
                                   keys ? shape->index_dim : 0};
        for (uint32_t which = 0; which < 2; which++) {
            state->sums[layer][which] = at;
            state->sums_count[layer][which] = compressor_sums(shape, kind->ratio) * widths[which];
            at +=
                round_up((size_t)STATE_SUMS * state->sums_count[layer][which] * sizeof(float), 64);
        }
    }
    state->slot_bytes = round_up(at, 4096);
}

size_t sequence_state_bytes(const struct shape *shape, uint32_t layers, size_t row_bytes) {
    struct sequence_state state;
    lay_out(&state, shape, layers, row_bytes);
    return state.slot_bytes;
}

enum status sequence_state_open(struct sequence_state *state, const struct shape *shape,
                                uint32_t layers, uint32_t slots, size_t row_bytes,
                                struct error *error) {
    lay_out(state, shape, layers, row_bytes);
    state->slots = slots;
    state->mapped_bytes = slots * state->slot_bytes;
    state->ends = calloc(slots, sizeof *state->ends);
    state->highest = calloc(slots, sizeof *state->highest);
    state->ids = calloc((size_t)slots * STATE_IDS, sizeof *state->ids);
    void *memory = mmap(NULL, state->mapped_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    state->memory = memory == MAP_FAILED ? NULL : memory;
    if (state->memory && state->ends && state->highest && state->ids) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY,
                     "cannot map %zu bytes for the windows of %u sequences; lower their number",
                     state->mapped_bytes, slots);
}

void sequence_state_close(struct sequence_state *state) {
    if (state->memory) munmap(state->memory, state->mapped_bytes);
    free(state->ends);
    free(state->highest);
    free(state->ids);
    *state = (struct sequence_state){0};
}

enum status sequence_state_check(const struct sequence_state *state, const struct step_plan *plan,
                                 uint32_t index, struct error *error) {
    const struct step_row *row = &step_plan_rows(plan)[index];
    if (row->slot >= state->slots)
        return error_set(error, STATUS_INVALID,
                         "step %llu, row %u: the slot is %u, expected less "
                         "than %u",
                         (unsigned long long)plan->step, index, row->slot, state->slots);
    const uint32_t end = state->ends[row->slot];
    if (row->first_position == 0 ||
        (!row->fresh && row->first_position <= end &&
         state->highest[row->slot] - row->first_position <= STATE_REWIND))
        return STATUS_OK;
    return error_set(
        error, STATUS_UNSUPPORTED,
        "step %llu, row %u: begins at position %u, but its slot has the windows before "
        "position %u: this model cannot continue a prefix that was computed elsewhere; "
        "begin at position 0",
        (unsigned long long)plan->step, index, row->first_position, end);
}

void sequence_state_note(struct sequence_state *state, uint32_t slot, uint32_t first,
                         uint32_t end) {
    check(slot < state->slots);
    state->ends[slot] = end;
    if (first == 0 || end > state->highest[slot]) state->highest[slot] = end;
}
