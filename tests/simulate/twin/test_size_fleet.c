/* SPDX-License-Identifier: Apache-2.0
 * Which fleet is the cheapest is known by hand, since the clock is a simple sum (stand_in_clock.c):
 * 20 ms, 10 us for each token of a prompt, 100 us for each answer of the largest rank.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simulate/twin/size_window.h"

static const struct hardware by_hand_hardware = {
    .name = "by hand", .gpus_per_node = 8, .hbm_bytes = 8e10};
static const struct model_figures by_hand_model = {
    .name = "by hand", .layers = 61, .experts = 256, .kv_bytes_per_token = 70272};

static struct size_options by_hand(void) {
    return (struct size_options){.hardware = &by_hand_hardware,
                                 .model = &by_hand_model,
                                 .load = {.rate = 8,
                                          .prompt_mean = 4096,
                                          .answer_mean = 100,
                                          .kv_mean = 1216}, /* 20 pages: 25 rows fit into 500 */
                                 .ttft_s = 3,
                                 .tpot_s = 0.0215, /* 15 rows, and no more */
                                 .seed = 1};
}

static struct size_search search;
static struct size_fleet fleets[SIZE_FLEETS_MAX];

static uint32_t rank_all(const struct size_options *options) {
    static char memory[1 << 16];
    struct arena arena;
    struct error error;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(size_fleet_search(options, &arena, &search, &error), STATUS_OK);
    return size_fleet_rank(options, &search, fleets);
}

/* 15 rows of 8 ranks in 21.5 ms are 55.8 answers a second: one node. 8 ranks compute 4096 tokens
 * in 61 ms: one node. Combined ones have no room for prompts of 4096 in 1.5 ms of a step. */
static void the_cheapest_is_the_one_known_by_hand(void **state) {
    (void)state;
    struct size_options options = by_hand();
    assert_true(rank_all(&options) > 0);
    assert_int_equal(fleets[0].verdict, SIZE_BOUND);
    assert_int_equal(fleets[0].kind_count, 2);
    assert_int_equal(fleets[0].kinds[1].rows, 15);
    assert_true(fleets[0].least_nodes == 2 && fleets[0].nodes == 2);
    for (uint32_t i = 1; i < SIZE_FLEETS_MAX && fleets[i].verdict == SIZE_BOUND; i++)
        assert_true(fleets[i].least_nodes == 0 || fleets[i].least_nodes >= 2);
}

static void a_limit_that_nothing_meets_is_named(void **state) {
    (void)state;
    struct size_options options = by_hand();
    options.tpot_s = 0.02;
    uint32_t count = rank_all(&options);
    bool named = false;
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(fleets[i].verdict, SIZE_CANNOT);
        named |= strstr(fleets[i].why, "TPOT 20.1 ms > 20.0 ms at any batch") != NULL;
    }
    assert_true(named);
}

static void a_fleet_grows_where_it_misses_until_it_holds(void **state) {
    (void)state;
    struct size_options options = by_hand();
    rank_all(&options);
    struct size_fleet fleet = fleets[0];
    struct size_trial trial = {.ttft_p99_s = 4, .tpot_p99_s = 0.02, .begun_share = 1};
    assert_true(size_fleet_take(&options, &trial, 100, &fleet));
    assert_int_equal(fleet.counts[0], 2);
    assert_int_equal(fleet.counts[1], 1);
    trial = (struct size_trial){.ttft_p99_s = 2, .tpot_p99_s = 0.03, .begun_share = 1};
    assert_true(size_fleet_take(&options, &trial, 100, &fleet));
    assert_int_equal(fleet.counts[1], 2);
    trial = (struct size_trial){.ttft_p99_s = 2, .tpot_p99_s = 0.02, .begun_share = 1};
    assert_false(size_fleet_take(&options, &trial, 100, &fleet));
    assert_int_equal(fleet.verdict, SIZE_HOLDS);
}

static void a_fleet_that_would_cost_more_than_another_grows_no_further(void **state) {
    (void)state;
    struct size_options options = by_hand();
    rank_all(&options);
    struct size_fleet fleet = fleets[0];
    struct size_trial trial = {.ttft_p99_s = 4, .tpot_p99_s = 0.02, .begun_share = 1};
    assert_false(size_fleet_take(&options, &trial, 3, &fleet));
    assert_int_equal(fleet.verdict, SIZE_MISSES);
    assert_string_equal(fleet.why, "TTFT p99 4.00 s > 3.00 s");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cheapest_is_the_one_known_by_hand),
        cmocka_unit_test(a_limit_that_nothing_meets_is_named),
        cmocka_unit_test(a_fleet_grows_where_it_misses_until_it_holds),
        cmocka_unit_test(a_fleet_that_would_cost_more_than_another_grows_no_further),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
