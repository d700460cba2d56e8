/* SPDX-License-Identifier: Apache-2.0
 * What plan runs next, and what it concludes: the cheapest fleet is found though only few fleets
 * run, and none is called cheaper than it was seen to be.
 */

#include "simulate/simulator/size_growth.h"
#include "test_case.h"

static struct size_options options = {
    .load = {.rate = 20, .answer_mean = 1000}, .ttft_s = 3, .tpot_s = 0.05};
static struct size_fleet fleets[SIZE_FLEETS_MAX];
static struct size_growth growth;

static struct size_unit prefill_of(uint32_t step_tokens, bool storage) {
    return (struct size_unit){.role = UNIT_PREFILL,
                              .ranks = 16,
                              .nodes = 2,
                              .step_tokens = step_tokens,
                              .storage = storage};
}

static struct size_unit decode_of(uint32_t ranks) {
    return (struct size_unit){.role = UNIT_DECODE, .ranks = ranks, .nodes = ranks / 8.0};
}

static struct size_fleet apart(struct size_unit prefill, struct size_unit decode) {
    return (struct size_fleet){.kinds = {prefill, decode},
                               .counts = {1, 1},
                               .kind_count = 2,
                               .storage = prefill.storage,
                               .load = prefill.nodes + decode.nodes};
}

static void open_with(uint32_t count, double rate) {
    options.load.rate = rate;
    size_growth_open(&options, fleets, count, &growth);
}

/* A world in which so many units suffice. */
static struct size_trial answer(const struct size_run *run, uint32_t prefills, uint32_t decodes) {
    bool late = run->fleet.counts[0] < prefills, slow = run->fleet.counts[1] < decodes;
    return (struct size_trial){
        .ttft_p99_s = late ? 4 : 2, .tpot_p99_s = slow ? 0.06 : 0.04, .begun_share = 1, .share = 1};
}

static uint32_t run_all(uint32_t prefills, uint32_t decodes) {
    struct size_run run;
    uint32_t runs = 0;
    while (size_growth_next(&growth, &run)) {
        struct size_trial trial = answer(&run, prefills, decodes);
        size_growth_take(&growth, &run, &trial);
        assert_true(++runs < 40);
    }
    size_growth_close(&growth);
    return runs;
}

TEST(a_fleet_grows_in_the_role_that_misses_until_it_holds) {
    fleets[0] = apart(prefill_of(4096, true), decode_of(16));
    open_with(1, 20);
    run_all(5, 2);
    assert_int_equal(fleets[0].verdict, SIZE_HOLDS);
    assert_int_equal(fleets[0].counts[0], 5);
    assert_int_equal(fleets[0].counts[1], 2);
    assert_true(fleets[0].nodes == 14 && fleets[0].trial.ttft_p99_s == 2);
}

TEST(what_one_fleet_showed_of_a_unit_holds_for_others) {
    fleets[0] = apart(prefill_of(4096, true), decode_of(16));
    fleets[1] = apart(prefill_of(4096, true), decode_of(24));
    fleets[2] = apart(prefill_of(4096, false), decode_of(16));
    open_with(3, 20);
    run_all(4, 1);
    assert_true(fleets[0].verdict == SIZE_HOLDS && fleets[0].nodes == 10);
    assert_true(fleets[1].verdict == SIZE_BOUND && fleets[1].trials == 0);
    assert_true(fleets[1].least_nodes == 11); /* four prefill units there, too */
    assert_true(fleets[2].verdict == SIZE_BOUND && fleets[2].trials == 0);
    assert_true(fleets[2].least_nodes >= 8); /* without storage no fewer */
    assert_string_equal(fleets[2].why, "TTFT p99 4.00 s > 3.00 s");
}

TEST(no_fleet_that_could_be_cheaper_is_left_out) {
    fleets[0] = apart(prefill_of(4096, true), decode_of(16));
    fleets[1] = apart(prefill_of(2048, true), decode_of(16));
    open_with(2, 20);
    run_all(9, 1);
    for (int i = 0; i < 2; i++)
        assert_true(fleets[i].least_nodes >= 20 || fleets[i].verdict == SIZE_HOLDS);
    assert_true(fleets[0].nodes == 20 || fleets[1].nodes == 20);
}

TEST(roles_of_a_large_load_are_run_for_themselves) {
    struct size_run run;
    fleets[0] = apart(prefill_of(4096, true), decode_of(16));
    open_with(1, 2000);
    assert_true(size_growth_next(&growth, &run));
    assert_int_equal(run.focus, SIZE_ANSWERS);
    struct size_trial trial = {.tpot_p99_s = 0.04, .begun_share = 1};
    size_growth_take(&growth, &run, &trial);
    assert_true(size_growth_next(&growth, &run));
    assert_int_equal(run.focus, SIZE_PROMPTS);
    trial = (struct size_trial){.ttft_p99_s = 1, .begun_share = 1};
    size_growth_take(&growth, &run, &trial);
    assert_false(size_growth_next(&growth, &run));
    size_growth_close(&growth);
    assert_int_equal(fleets[0].verdict, SIZE_HOLDS);
    assert_true(fleets[0].trial.ttft_p99_s == 1 && fleets[0].trial.tpot_p99_s == 0.04);
}

TEST(a_limit_that_no_number_of_units_meets_ends_the_search) {
    fleets[0] = apart(prefill_of(4096, true), decode_of(16));
    open_with(1, 20);
    run_all(1000000, 1);
    assert_int_equal(fleets[0].verdict, SIZE_MISSES);
    assert_string_equal(fleets[0].why, "TTFT p99 4.00 s > 3.00 s");
}

TEST(prompts_that_never_begin_are_a_miss) {
    struct size_run run;
    fleets[0] = apart(prefill_of(4096, true), decode_of(16));
    open_with(1, 20);
    assert_true(size_growth_next(&growth, &run));
    struct size_trial trial = {.ttft_p99_s = 1, .tpot_p99_s = 0.04, .begun_share = 0.9};
    size_growth_take(&growth, &run, &trial);
    assert_true(size_growth_next(&growth, &run));
    assert_true(run.fleet.counts[0] > 1);
}
