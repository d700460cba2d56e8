/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/outcome.h"

#include <math.h>

#include "small_outcome.h"
#include "test_case.h"

static double figure_of(const char *name) {
    struct day_figure figures[OUTCOME_FIGURES_MAX];
    uint32_t count = outcome_figures(&small_outcome, figures);
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(figures[i].name, name)) return figures[i].simulated;
    fail_msg("no figure %s", name);
    return 0;
}

TEST(figures_follow_from_the_counts) {
    small_outcome_make();
    assert_true(figure_of("both_output_tokens_per_s_per_node") == 100);
    assert_true(figure_of("both_step_ms") == 50);
    assert_true(figure_of("cache_hit_percent") == 25);
    assert_true(figure_of("both_kv_use_percent") == 25);
    assert_true(figure_of("cost_per_hour") == 32);
    double income = (10000 * 0.14 + 30000 * 0.55 + 2000 * 2.19) * 1e-6 * 360;
    assert_true(fabs(figure_of("income_per_hour") - income) < 1e-9);
}

/* Standing requests came before the run, so their first token tells nothing of TTFT. */
TEST(only_what_is_measured_is_received) {
    struct simulator_ended request = {.arrival_ns = 1500000000,
                                      .first_ns = 2000000000,
                                      .end_ns = 3000000000,
                                      .answer_tokens = 11};
    struct simulator_ended early = request, standing = request;
    early.first_ns = 900000000;
    standing.standing = true;
    small_outcome_make();
    small_scenario.options.begun(&small_outcome, &request);
    small_scenario.options.begun(&small_outcome, &early);
    small_scenario.options.begun(&small_outcome, &standing);
    small_scenario.options.ended(&small_outcome, &request);
    small_scenario.options.ended(&small_outcome, &standing);
    assert_int_equal(small_outcome.ttft.total, 1);
    assert_int_equal(small_outcome.tpot.total, 1);
    assert_true(fabs(figure_of("tpot_p50_ms") / 100 - 1) < 0.01);
}

TEST(samples_become_rates) {
    small_outcome_make();
    struct simulator_sample sample = {
        .now_ns = 3000000000, .so_far = &small_outcome.report, .open = 7};
    small_scenario.options.sampled(&small_outcome, &sample);
    assert_int_equal(small_outcome.point_count, 1);
    assert_true(small_outcome.points[0].at_s == 2);
    assert_true(small_outcome.points[0].output_rate == 1000);
    assert_true(small_outcome.points[0].open == 7);
}

TEST(points_end_with_the_measured_time) {
    small_outcome_make();
    struct simulator_sample sample = {.so_far = &small_outcome.report};
    for (int i = 1; i <= 9; i++) {
        sample.now_ns = (1 + 4 * i) * (int64_t)1000000000;
        small_scenario.options.sampled(&small_outcome, &sample);
    }
    assert_int_equal(small_outcome.point_count, 9);
    assert_int_equal(outcome_points(&small_outcome), 3); /* 4, 8 and 12 s of 10 */
}
