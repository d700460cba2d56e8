/* SPDX-License-Identifier: Apache-2.0
 * Protects the published day: with the published load, unit sizes and one free parameter the
 * product's manager comes to the published nodes within 3 % on average and keeps its limits; units
 * of each side by themselves need fewer; noise makes it turn less than once an hour; and days on
 * which no rule was tried while it was made are borne, too.
 */
#include <math.h>

#include "simulate/scaling/scaled_day.h"
#include "test_case.h"

#define HOUR ((int64_t)3600 * 1000000000)

static struct scaled_outcome live(struct scaled_day day) {
    struct scaled_options options;
    struct scaled_outcome outcome;
    struct arena arena;
    void *memory = malloc(scaled_world_bytes());
    assert_non_null(memory);
    arena_over(&arena, memory, scaled_world_bytes());
    scaled_day_options(&day, &options);
    options.load = &day;
    assert_int_equal(scaled_world_run(&arena, &options, &outcome), STATUS_OK);
    free(memory);
    return outcome;
}

static double missed(const struct scaled_outcome *outcome) {
    return (double)outcome->missed_windows / (double)outcome->windows;
}

TEST(the_load_is_the_published_one) {
    double sum = 0, most = 0;
    for (int64_t at_ns = 0; at_ns < 24 * HOUR; at_ns += HOUR / 60) {
        sum += scaled_day_arrivals(at_ns) / (24 * 60);
        most = fmax(most, scaled_day_arrivals(at_ns));
    }
    assert_true(fabs(sum - 1605) < 5);
    assert_true(most / sum > 1.31 && most / sum < 1.33);
    double nodes = 0;
    for (uint32_t hour = 0; hour < 24; hour++)
        nodes += scaled_day_published(hour) / 24.0;
    assert_true(fabs(nodes - SCALED_DAY_NODES_MEAN) < 3);
}

TEST(the_published_nodes_come_out_within_three_percent) {
    struct scaled_outcome outcome = live((struct scaled_day){
        .as_published = true, .unit_rate = SCALED_DAY_UNIT_RATE, .rule = SCALED_MANAGER});
    assert_true(fabs(outcome.nodes_mean / SCALED_DAY_NODES_MEAN - 1) < 0.03);
    assert_int_equal(outcome.nodes_max, 278);
    assert_true(missed(&outcome) < 0.01);
}

TEST(each_side_by_itself_needs_fewer_nodes) {
    struct scaled_day day = {.unit_rate = SCALED_DAY_UNIT_RATE, .rule = SCALED_MANAGER};
    struct scaled_outcome outcome = live(day);
    assert_true(outcome.nodes_mean < 0.975 * SCALED_DAY_NODES_MEAN);
    assert_true(missed(&outcome) < 0.01);
    day.rule = SCALED_CLAIRVOYANT;
    struct scaled_outcome least = live(day);
    assert_true(least.nodes_mean < outcome.nodes_mean);
    day.rule = SCALED_STATIC;
    assert_true(live(day).nodes_mean > outcome.nodes_mean);
}

TEST(noise_makes_it_turn_less_than_once_an_hour) {
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct scaled_outcome outcome = live((struct scaled_day){.load = SCALED_NOISE,
                                                                 .unit_rate = SCALED_DAY_UNIT_RATE,
                                                                 .reserve = 0.02,
                                                                 .rule = SCALED_MANAGER,
                                                                 .seed = seed});
        assert_true(outcome.reversals <= 24 && missed(&outcome) < 0.01);
    }
}

TEST(a_day_that_nobody_expected_is_borne_with_hardly_more_nodes_than_a_reactive_rule_has) {
    for (int load = SCALED_CROWD; load < SCALED_LOAD_COUNT; load++) {
        struct scaled_day day = {.load = (enum scaled_load)load,
                                 .unit_rate = SCALED_DAY_UNIT_RATE,
                                 .reserve = 0.02,
                                 .rule = SCALED_MANAGER,
                                 .seed = 11};
        struct scaled_outcome own = live(day);
        day.rule = SCALED_REACTIVE;
        assert_true(own.nodes_mean < 1.1 * live(day).nodes_mean);
        assert_true(missed(&own) < 0.015 && own.reversals <= 24);
    }
}
