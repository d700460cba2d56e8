/* SPDX-License-Identifier: Apache-2.0
 * Protects the schedules' meaning: whatever the table, each lane goes through every layer's stages
 * in order, once; a prompt that is split between lanes finds its first part's KV rows; and each
 * communication of a table with two lanes has the other lane's work over it.
 */
#include "contract/overlap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define LAYERS 5

struct event {
    enum stage stage;
    uint32_t lane, layer;
};

static struct event events[LAYERS * OVERLAP_LANES * STAGE_COUNT];

/* The walk as contract/overlap.h describes it. */
static uint32_t walk(enum overlap_kind kind) {
    const struct overlap *overlap = overlap_of(kind);
    uint32_t count = 0;
    for (int layer = -1; layer < LAYERS; layer++)
        for (uint32_t i = 0; i < overlap->row_count; i++) {
            const struct overlap_row *row = &overlap->rows[i];
            int at = layer + row->ahead;
            if (at < 0 || at >= LAYERS) continue;
            assert_true(row->lane < overlap->lane_count);
            events[count++] = (struct event){row->stage, row->lane, (uint32_t)at};
        }
    return count;
}

static uint32_t place(uint32_t count, enum stage stage, uint32_t lane, uint32_t layer) {
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++)
        if (events[i].stage == stage && events[i].lane == lane && events[i].layer == layer) {
            assert_int_equal(found, UINT32_MAX); /* once */
            found = i;
        }
    assert_int_not_equal(found, UINT32_MAX);
    return found;
}

static void lanes_keep_their_order(void **state) {
    (void)state;
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++) {
        uint32_t count = walk(kind), lanes = overlap_of(kind)->lane_count;
        assert_int_equal(count, LAYERS * lanes * STAGE_COUNT);
        for (uint32_t lane = 0; lane < lanes; lane++) {
            uint32_t last = 0;
            for (uint32_t layer = 0; layer < LAYERS; layer++)
                for (int stage = 0; stage < STAGE_COUNT; stage++) {
                    uint32_t at = place(count, stage, lane, layer);
                    assert_true(at >= last);
                    last = at;
                }
        }
    }
}

static void the_second_lane_finds_the_first_ones_rows(void **state) {
    (void)state;
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++) {
        uint32_t count = walk(kind);
        for (uint32_t layer = 0; layer < LAYERS && overlap_of(kind)->lane_count == 2; layer++)
            assert_true(place(count, STAGE_ATTENTION_0, 0, layer) <
                        place(count, STAGE_ATTENTION_1, 1, layer));
    }
}

static bool is_work(enum stage stage) {
    return stage != STAGE_DISPATCH && stage != STAGE_COMBINE;
}

/* Between begin and wait; the first and the last layer have no neighbour for one of theirs. */
static void communication_is_covered(void **state) {
    (void)state;
    for (int kind = OVERLAP_SEQUENTIAL + 1; kind < OVERLAP_KIND_COUNT; kind++) {
        uint32_t count = walk(kind);
        for (uint32_t layer = 1; layer + 1 < LAYERS; layer++)
            for (uint32_t lane = 0; lane < OVERLAP_LANES; lane++) {
                uint32_t begins[2] = {place(count, STAGE_DISPATCH, lane, layer),
                                      place(count, STAGE_MLP, lane, layer)};
                uint32_t ends[2] = {place(count, STAGE_MLP, lane, layer),
                                    place(count, STAGE_COMBINE, lane, layer)};
                for (int i = 0; i < 2; i++) {
                    uint32_t others = 0;
                    for (uint32_t at = begins[i] + 1; at < ends[i]; at++)
                        others += events[at].lane != lane && is_work(events[at].stage);
                    assert_true(others > 0);
                }
            }
    }
}

static void names_are_given(void **state) {
    (void)state;
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++)
        assert_non_null(overlap_name(kind));
    for (int stage = 0; stage < STAGE_COUNT; stage++)
        assert_non_null(stage_name(stage));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_keep_their_order),
        cmocka_unit_test(the_second_lane_finds_the_first_ones_rows),
        cmocka_unit_test(communication_is_covered),
        cmocka_unit_test(names_are_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
