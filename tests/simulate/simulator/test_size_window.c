/* SPDX-License-Identifier: Apache-2.0
 * A sample of a fleet never has more units for its load than the fleet has.
 */
#include <math.h>

#include "base/limits.h"
#include "simulate/simulator/size_window.h"
#include "test_case.h"

static struct size_fleet fleet_of(uint32_t prefill, uint32_t decode) {
    return (struct size_fleet){
        .kinds = {{.role = UNIT_PREFILL, .ranks = 32}, {.role = UNIT_DECODE, .ranks = 144}},
        .counts = {prefill, decode},
        .kind_count = 2};
}

/* 200 requests a second with answers of 1,000 tokens are more than is run whole. */
static const struct size_load large = {.rate = 200, .answer_mean = 1000, .prompt_mean = 4000};
static const struct size_load small = {.rate = 20, .answer_mean = 1000, .prompt_mean = 4000};

TEST(a_role_alone_has_the_load_of_its_units) {
    for (uint32_t prefill = 1; prefill < 90; prefill++)
        for (uint32_t decode = 1; decode < 40; decode++) {
            struct size_fleet fleet = fleet_of(prefill, decode);
            struct size_sample prompts = size_window_sample(&large, &fleet, SIZE_PROMPTS);
            struct size_sample answers = size_window_sample(&large, &fleet, SIZE_ANSWERS);
            assert_true(prompts.counts[0] + prompts.counts[1] <= LIMIT_FLEET_UNITS);
            assert_true(fabs(prompts.counts[0] - prompts.share * prefill) < 1e-9);
            assert_true(prompts.counts[1] >= prompts.share * decode - 1e-9);
            assert_true(fabs(answers.counts[1] - answers.share * decode) < 1e-9);
        }
}

TEST(a_fleet_for_a_small_load_is_run_whole) {
    struct size_fleet fleet = fleet_of(4, 1);
    assert_true(size_growth_whole(&small, &fleet) && !size_growth_whole(&large, &fleet));
    struct size_sample sample = size_window_sample(&small, &fleet, SIZE_WHOLE);
    assert_int_equal(sample.counts[0], 4);
    assert_int_equal(sample.counts[1], 1);
    assert_true(sample.share == 1);
}

/* No TTFT means anything while prompts take no time; no prompt can be judged in the last
 * seconds. */
TEST(each_role_is_given_the_time_that_it_needs) {
    struct size_options options = {.load = large, .ttft_s = 3};
    struct size_fleet fleet = fleet_of(4, 2);
    struct day_lengths lengths = {0};
    struct day_load load;
    struct simulator_options simulator = {0};
    struct size_sample sample = size_window_sample(&large, &fleet, SIZE_PROMPTS);
    size_window_set_load(&options, &fleet, &sample, &lengths, 0, &load, &simulator);
    assert_true(simulator.settle_ns == 0 && simulator.measure_ns > 3000000000 &&
                load.standing_count == 0);
    sample = size_window_sample(&large, &fleet, SIZE_ANSWERS);
    size_window_set_load(&options, &fleet, &sample, &lengths, 10, &load, &simulator);
    assert_true(simulator.settle_ns >= simulator.warm_ns + simulator.measure_ns);
    assert_int_equal(load.standing_count, 10 * 144);
}
