/* SPDX-License-Identifier: Apache-2.0
 * Protects what a V4 sequence keeps in its slot: rows and sums of slots, layers and positions lie
 * apart, and a row that does not continue its slot's state is refused by name, never computed from
 * another sequence's windows.
 */
#include <string.h>

#include "test_case.h"

#include "compute/model/sequence_state.h"

#define SLOTS 3

static struct sequence_state state;
static struct shape shape;
static struct step_plan *plan;
static struct error error;

static void open_state(void) {
    static char memory[4096];
    shape = (struct shape){.layers = 3,
                           .streams = 4,
                           .window = 16,
                           .kv_rank = 24,
                           .rope_dim = 8,
                           .index_dim = 16,
                           .overlaps = true};
    for (uint16_t i = 0; i < 3; i++)
        shape.layer_kinds[i] = (struct layer_kind){.attention = ATTENTION_COMPRESSED,
                                                   .ratio = i == 0   ? 0
                                                            : i == 1 ? 4
                                                                     : 128,
                                                   .entry_source = i == 0 ? LAYER_NONE : i,
                                                   .index_source = i == 1 ? i : LAYER_NONE};
    assert_int_equal(sequence_state_open(&state, &shape, 3, SLOTS, 64, &error), STATUS_OK);
    plan = (struct step_plan *)(void *)memory;
    *plan = (struct step_plan){.row_count = 1};
}

static enum status check_at(uint32_t slot, uint32_t position, bool fresh) {
    step_plan_rows(plan)[0] =
        (struct step_row){.slot = slot, .first_position = position, .fresh = fresh};
    return sequence_state_check(&state, plan, 0, &error);
}

TEST(a_row_continues_its_slots_state_or_begins_anew) {
    open_state();
    assert_int_equal(check_at(0, 0, true), STATUS_OK);
    assert_int_equal(check_at(0, 64, false), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.text, "begins at position 64"));
    sequence_state_note(&state, 0, 0, 64);
    assert_int_equal(check_at(0, 64, false), STATUS_OK);
    assert_int_equal(check_at(0, 64 - STATE_REWIND, false), STATUS_OK);
    assert_int_equal(check_at(0, 63 - STATE_REWIND, false), STATUS_UNSUPPORTED);
    assert_int_equal(check_at(0, 65, false), STATUS_UNSUPPORTED);
    assert_int_equal(check_at(0, 64, true), STATUS_UNSUPPORTED);
    assert_int_equal(check_at(1, 64, false), STATUS_UNSUPPORTED);
    sequence_state_note(&state, 0, 60, 62); /* what was behind stays overwritten */
    assert_int_equal(check_at(0, 64 - STATE_REWIND, false), STATUS_OK);
    assert_int_equal(check_at(0, 63 - STATE_REWIND, false), STATUS_UNSUPPORTED);
    assert_int_equal(check_at(0, 63, false), STATUS_UNSUPPORTED);
    assert_int_equal(check_at(SLOTS, 0, true), STATUS_INVALID);
    sequence_state_close(&state);
}

TEST(rows_and_sums_lie_apart) {
    open_state();
    memset(state.memory, 0, state.mapped_bytes);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        for (uint32_t layer = 0; layer < 3; layer++) {
            for (uint32_t position = 0; position < state.ring_rows; position++) {
                char *row = sequence_state_row(&state, slot, layer, position);
                for (uint32_t i = 0; i < state.row_bytes; i++)
                    assert_int_equal(row[i]++, 0);
            }
            for (uint32_t which = 0; which < 2; which++)
                for (uint32_t position = 0; position < STATE_SUMS; position++) {
                    char *sums = (char *)sequence_state_sums(&state, slot, layer, which, position);
                    for (uint32_t i = 0; i < state.sums_count[layer][which] * 4; i++)
                        assert_int_equal(sums[i]++, 0);
                }
        }
    assert_int_equal(state.sums_count[1][0], 6 * 32);
    assert_int_equal(state.sums_count[1][1], 6 * 16);
    assert_int_equal(state.sums_count[2][0], 3 * 32);
    assert_int_equal(state.sums_count[2][1], 0);
    assert_int_equal(state.slot_bytes, sequence_state_bytes(&shape, 3, 64));
    sequence_state_close(&state);
}

TEST(a_ring_holds_the_window_and_what_may_be_dropped) {
    open_state();
    assert_true(state.ring_rows >= shape.window + STATE_REWIND);
    assert_ptr_equal(sequence_state_row(&state, 0, 1, 5),
                     sequence_state_row(&state, 0, 1, 5 + state.ring_rows));
    sequence_state_close(&state);
}
