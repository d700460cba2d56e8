/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator.h"

#include "serving/policy/speculate.h"
#include "small_fleet.h"

/* A rank with 16 rows all the time brings 16 tokens a step: 20 ms + 16 * 0.1 ms + 0.1 ms. */
TEST(answers_come_as_fast_as_the_clock_says) {
    struct small_load drawn = small_few(6);
    drawn.count = drawn.standing = 600;
    drawn.prompt_max = 100;
    drawn.answer_max = 4000;
    struct simulator_options options = small_one_and_one(&drawn);
    options.kinds[1].page_count = 8000;
    options.kinds[1].requests_max = 256;
    options.settle_ns = 1000000000;
    options.warm_ns = 2000000000;
    options.measure_ns = 10000000000;
    struct simulator_report report = small_live(&options);
    const struct simulator_role_counts *decode = &report.roles[UNIT_DECODE];
    double step_s = 0.0217, tokens = 4 * 16 * report.measured_s / step_s;
    assert_true(report.measured_s == 10);
    assert_true(decode->layer_balance[0] == 1 && decode->layer_balance[2] == 1.5);
    assert_true((double)decode->steps > 0.99 * report.measured_s / step_s);
    assert_true((double)decode->steps < 1.01 * report.measured_s / step_s);
    assert_true((double)decode->output_tokens > 0.99 * tokens);
    assert_true((double)decode->output_tokens < 1.01 * tokens);
    double speed = report.user_speed_tokens / report.user_tokens * step_s;
    assert_true(speed > 0.99 && speed < 1.01);
}

TEST(drafts_are_right_as_often_as_the_model_says) {
    struct small_load drawn = small_few(7);
    struct simulator_options options = small_one_and_one(&drawn);
    options.kinds[1].speculate = SPECULATE_ALWAYS;
    struct simulator_report report = small_live(&options);
    const struct simulator_role_counts *decode = &report.roles[UNIT_DECODE];
    double each = (double)decode->output_tokens / (double)decode->rows;
    assert_int_equal(report.answered, 200);
    assert_true(each > 1.7 && each < 1.8); /* none is drafted across a block's end */
}
