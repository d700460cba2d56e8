/* SPDX-License-Identifier: Apache-2.0
 * Two hours of a fleet that follows its load, for tests of its rules and of their bound.
 */
#pragma once

#include "simulate/scaling/scaled_world.h"
#include "test_case.h"

#define S ((int64_t)1000000000)
#define HOUR (3600 * S)
#define DAY (24 * HOUR)

static double arrivals(const void *load, int64_t at_ns) {
    return *(const double *)load * (at_ns % DAY < 12 * HOUR ? 1 : 2);
}

/* Two hours around noon, of which the first wants 4 + 4 units and the second 8 + 8; windows of 20
 * s. */
static struct scaled_options two_hours(const double *load, double noise) {
    struct scale_rule_side side = {
        .unit_rate = 1000, .unit_nodes = 1, .least = 1, .most = 12, .group = 1};
    return (struct scaled_options){
        .manager = {.rule = {.sides = {side, side},
                             .give_back = 0.05,
                             .rest_ns = HOUR / 2,
                             .start_ns = 300 * S},
                    .calendar = {.period_ns = DAY, .price = 1},
                    .nodes = 40,
                    .ttft_limit_ns = 2 * S,
                    .tpot_limit_ns = S / 20,
                    .missed_share = 0.01,
                    .decide_ns = 20 * S,
                    .drain_ns_max = 300 * S,
                    .start_ns_max = 1200 * S,
                    .starts_at_once = 40},
        .rule = SCALED_MANAGER,
        .arrivals = arrivals,
        .load = load,
        .prompt_tokens = 1000,
        .answer_tokens = 1000,
        .noise = noise,
        .noise_ns = 300 * S,
        .tick_ns = 20 * S,
        .begin_ns = DAY + 2 * HOUR,
        .measure_ns = DAY + 11 * HOUR,
        .end_ns = DAY + 13 * HOUR,
        .seed = 1,
    };
}

static struct scaled_outcome two_hours_run(const struct scaled_options *options) {
    struct scaled_outcome outcome;
    struct arena arena;
    void *memory = malloc(scaled_world_bytes());
    assert_non_null(memory);
    arena_over(&arena, memory, scaled_world_bytes());
    assert_int_equal(scaled_world_run(&arena, options, &outcome), STATUS_OK);
    free(memory);
    return outcome;
}
