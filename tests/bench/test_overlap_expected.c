/* SPDX-License-Identifier: Apache-2.0
 * Protects what `fathom bench overlap` prints beside each measured schedule: its table walked with
 * the stage times of a sequential step. Cases that can be worked out by hand.
 */
#include "bench/overlap_expected.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

/* Two steps of 12 s in all, of which layers take three quarters: of 5 layers 1 is dense. As measured
 * in some other run, whose stages took a tenth of that. */
static const struct overlap_step_times usual = {
    .steps = 2,
    .layers = 5,
    .dense_layers = 1,
    .compute = 12,
    .in_layers = 0.75,
    .stages = {{[STAGE_ATTENTION_1] = 0.05, [STAGE_MLP] = 0.05},
               {[STAGE_ATTENTION_0] = 0.2, [STAGE_ATTENTION_1] = 0.2, [STAGE_MLP] = 0.4}},
};

static bool is_near(double value, double expected) {
    return fabs(value - expected) < 1e-6;
}

static void without_communication_every_schedule_takes_what_is_computed(void **state) {
    (void)state;
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++) {
        struct overlap_expected walked = overlap_expected_of(&usual, (enum overlap_kind)kind);
        assert_true(is_near(walked.seconds, 12) && is_near(walked.waited, 0));
    }
}

/* The link is idle while attention is computed, and carries three of the four waves of a layer's results while
 * its other experts run: what a wave takes of them is 1/4 of MLP's 4 s, and of the link 1/4 of 2 s. */
static void a_sequential_step_waits_for_its_dispatches_and_last_waves(void **state) {
    (void)state;
    struct overlap_step_times times = usual;
    times.comm = 3;
    times.dispatch = 1;
    struct overlap_expected walked = overlap_expected_of(&times, OVERLAP_SEQUENTIAL);
    assert_true(is_near(walked.waited, 1 + 2.0 / 4));
    assert_true(is_near(walked.seconds, 12 + walked.waited));
}

static void no_table_of_two_lanes_is_better_than_the_best(void **state) {
    (void)state;
    struct overlap_row rows[BOUND_ROWS];
    struct overlap_step_times times = usual;
    times.comm = 8;
    times.dispatch = 3;
    double best = overlap_expected_of_two(&times, rows).seconds;
    double dual = overlap_expected_of(&times, OVERLAP_PREFILL_DUAL_BATCH).seconds;
    double five = overlap_expected_of(&times, OVERLAP_DECODE_FIVE_STAGE).seconds;
    assert_true(best >= 12 && best <= dual && best <= five);
    assert_true(dual < overlap_expected_of(&times, OVERLAP_SEQUENTIAL).seconds);
    assert_int_equal(rows[0].lane, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_communication_every_schedule_takes_what_is_computed),
        cmocka_unit_test(a_sequential_step_waits_for_its_dispatches_and_last_waves),
        cmocka_unit_test(no_table_of_two_lanes_is_better_than_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
