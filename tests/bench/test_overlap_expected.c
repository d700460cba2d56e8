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
    .stages = {{[STAGE_ATTENTION_0] = 0.05, [STAGE_ATTENTION_1] = 0.09, [STAGE_MLP] = 0.05},
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

/* Of 3 s under way, dispatches are 1. A layer's results are 0.5 s in four waves, each of which leaves
 * while the experts of the next are computed, and those take longer: only the last is waited for. */
static void a_sequential_step_waits_for_its_dispatches_and_last_waves(void **state) {
    (void)state;
    struct overlap_step_times times = usual;
    times.comm = 3;
    times.dispatch = 1;
    struct overlap_expected walked = overlap_expected_of(&times, OVERLAP_SEQUENTIAL);
    assert_true(is_near(walked.waited, 1 + 2.0 / 4));
    assert_true(is_near(walked.seconds, 12 + walked.waited));
}

static void no_table_of_two_micro_batches_is_better_than_the_best(void **state) {
    (void)state;
    struct overlap_step_times times = usual;
    times.comm = 8;
    times.dispatch = 3;
    double best = overlap_expected_of_two(&times).walked.seconds;
    double dual = overlap_expected_of(&times, OVERLAP_PREFILL_DUAL_BATCH).seconds;
    double five = overlap_expected_of(&times, OVERLAP_DECODE_FIVE_STAGE).seconds;
    assert_true(best >= 12 && best <= dual && best <= five);
    assert_true(dual < overlap_expected_of(&times, OVERLAP_SEQUENTIAL).seconds);
}

/* A dispatch takes 2 s beside a lane's 5 of work. SHARED, of which there is nothing, and ATTENTION_0 of
 * 1.5 s do not hide it, until an eighth of a core attention of 3 s runs there, too. */
static void attention_begun_early_hides_a_longer_dispatch(void **state) {
    (void)state;
    struct overlap_step_times times = {
        .steps = 1,
        .layers = 40,
        .compute = 400,
        .comm = 160,
        .dispatch = 160,
        .in_layers = 1,
        .stages = {{0}, {[STAGE_ATTENTION_0] = 0.3, [STAGE_ATTENTION_1] = 0.6, [STAGE_MLP] = 0.1}},
    };
    double late = overlap_expected_of(&times, OVERLAP_DECODE_FIVE_STAGE).waited;
    times.core = 0.6;
    double early = overlap_expected_of(&times, OVERLAP_DECODE_FIVE_STAGE).waited;
    assert_true(late > 40 && early < late - 25);
    assert_true(overlap_expected_of_two(&times).walked.waited < 4);
    assert_true(overlap_expected_of_two(&times).early_sixteenths > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_communication_every_schedule_takes_what_is_computed),
        cmocka_unit_test(a_sequential_step_waits_for_its_dispatches_and_last_waves),
        cmocka_unit_test(no_table_of_two_micro_batches_is_better_than_the_best),
        cmocka_unit_test(attention_begun_early_hides_a_longer_dispatch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
