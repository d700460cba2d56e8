/* SPDX-License-Identifier: Apache-2.0
 * Which fleet is the cheapest is known by hand, since the clock is a simple sum (stand_in_clock.c):
 * 20 ms, 10 us for each token of a prompt, 100 us for each answer of the largest rank.
 */

#include "simulate/simulator/size_window.h"
#include "test_case.h"

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
TEST(the_cheapest_is_the_one_known_by_hand) {
    struct size_options options = by_hand();
    assert_true(rank_all(&options) > 0);
    assert_int_equal(fleets[0].verdict, SIZE_BOUND);
    assert_int_equal(fleets[0].kind_count, 2);
    assert_int_equal(fleets[0].kinds[1].rows, 15);
    assert_true(fleets[0].least_nodes == 2 && fleets[0].nodes == 2);
    for (uint32_t i = 1; i < SIZE_FLEETS_MAX && fleets[i].verdict == SIZE_BOUND; i++)
        assert_true(fleets[i].least_nodes == 0 || fleets[i].least_nodes >= 2);
}

TEST(a_limit_that_nothing_meets_is_named) {
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

/* 20 ms and 10 us a token, chunk by chunk, behind one step of as many tokens. */
TEST(the_longest_prompt_that_can_be_in_time_is_known_by_hand) {
    static char memory[1 << 16];
    struct size_options options = by_hand();
    struct size_reach reach;
    struct arena arena;
    struct error error;
    options.ttft_s = 1;
    options.load.long_prompt[1] = 20000;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(size_fleet_reach(&options, &arena, &reach, &error), STATUS_OK);
    assert_in_range(reach.tokens, 72735, 72738); /* by 16,384: (1,000 - 183.84) / 183.84 steps */
    assert_true(reach.long_s > 0.3506 && reach.long_s < 0.3508); /* by 8,192 */
    options.ttft_s = 0.02;
    assert_int_equal(size_fleet_reach(&options, &arena, &reach, &error), STATUS_OK);
    assert_int_equal(reach.tokens, 0);
}

/* Nothing of a prompt of 300,000 tokens is in time, with storage or without. */
TEST(a_prompt_that_is_too_long_loses_its_units) {
    struct size_options options = by_hand();
    options.load.long_prompt[0] = options.load.long_prompt[1] = 300000;
    uint32_t count = rank_all(&options);
    bool named = false;
    for (uint32_t i = 0; i < count; i++)
        named |= strstr(fleets[i].why, "300000 tokens of a prompt take") != NULL;
    assert_true(count > 0 && named);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(fleets[i].verdict, SIZE_CANNOT);
}
