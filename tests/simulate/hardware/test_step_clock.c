/* SPDX-License-Identifier: Apache-2.0
 * Protects the clock of steps: DeepSeek's two profile steps within 3 %, what bandwidths scale and
 * what they do not, whom ranks wait for, and where the time is said to have gone.
 */

#include "test_case.h"

#include <math.h>

#include "base/limits.h"
#include "hardware_of.h"
#include "simulate/hardware/step_clock.h"

static _Alignas(16) char clock_memory[32 << 20];
static struct arena clock_arena;
static struct hardware hardware;
static struct model_figures model;
static struct step_clock_options options;
static struct step_clock *unit;
static struct step_share shares[LIMIT_RANKS];

static void open_unit(uint32_t ranks, uint32_t redundant, double skew, const char *key,
                      double value) {
    hardware = hardware_with("h800", key, value);
    model = model_named("deepseek-v3");
    options = (struct step_clock_options){.hardware = &hardware,
                                          .model = &model,
                                          .ranks = ranks,
                                          .ranks_per_node = 8,
                                          .redundant_experts = redundant,
                                          .balance_experts = redundant > 0,
                                          .expert_skew = skew,
                                          .seed = 1};
    assert_true(step_clock_bytes(&options) <= sizeof clock_memory);
    arena_over(&clock_arena, clock_memory, step_clock_bytes(&options));
    assert_int_equal(step_clock_open(&clock_arena, &options, &unit, &error), STATUS_OK);
}

static void answer_all(uint32_t requests, uint32_t tokens_each, uint64_t context) {
    for (uint32_t i = 0; i < LIMIT_RANKS; i++)
        shares[i] = (struct step_share){{.answer_rows = requests,
                                         .answer_tokens = requests * tokens_each,
                                         .context = (double)(requests * context)},
                                        .slowness = 1};
}

static void prefill_all(uint32_t tokens, uint64_t attended_each) {
    for (uint32_t i = 0; i < LIMIT_RANKS; i++)
        shares[i] = (struct step_share){
            {.prompt_tokens = tokens, .attended = (double)(tokens * attended_each)}, .slowness = 1};
}

static double decode_ms(void) {
    return (double)step_clock_step(unit, shares, OVERLAP_DECODE_FIVE_STAGE, 0).ns * 1e-6;
}

static double prefill_ms(void) {
    return (double)step_clock_step(unit, shares, OVERLAP_PREFILL_DUAL_BATCH, 0).ns * 1e-6;
}

static void is_within(double value, double low, double high) {
    if (value < low || value > high) fail_msg("%g is not in %g to %g", value, low, high);
}

TEST_AROUND(both_profile_steps_are_within_three_percent, begin_tree, NULL) {
    open_unit(128, 0, 0, NULL, 0);
    answer_all(128, 2, 4096);
    struct step_time time = step_clock_step(unit, shares, OVERLAP_DECODE_FIVE_STAGE, 0);
    is_within((double)time.layers_ns * 1e-6, 87.32 * 0.97, 87.32 * 1.03);
    open_unit(32, 32, 0, NULL, 0);
    prefill_all(16384, 2048);
    is_within(prefill_ms(), 2090 * 0.97, 2090 * 1.03);
}

TEST_AROUND(bandwidths_scale_what_they_bound, begin_tree, NULL) {
    answer_all(88, 1, 4989);
    open_unit(144, 32, 0.6, NULL, 0);
    double online = decode_ms();
    is_within(online, 47, 52); /* 20 to 22 tokens/s */
    open_unit(144, 32, 0.6, "hbm_gbps", 1676);
    assert_true(decode_ms() > online * 1.2);
    open_unit(144, 32, 0.6, "nic_gbps", 100);
    assert_true(decode_ms() > online * 1.5);
    prefill_all(16384, 2048);
    open_unit(32, 32, 0, NULL, 0);
    double whole = prefill_ms();
    open_unit(32, 32, 0, "hbm_gbps", 6704);
    assert_true(prefill_ms() == whole); /* compute bounds it */
    open_unit(32, 32, 0, "nic_gbps", 100);
    assert_true(prefill_ms() > whole * 2);
}

TEST_AROUND(weights_leave_as_many_pages_as_published_batches_need, begin_tree, NULL) {
    open_unit(144, 32, 0, NULL, 0);
    is_within(step_clock_weight_bytes(unit), 23.9e9, 24.1e9);
    is_within(step_clock_page_count(unit) * 64.0, 88 * 4989, 150 * 4989);
    open_unit(32, 32, 0, NULL, 0);
    is_within(step_clock_weight_bytes(unit), 41.8e9, 42.0e9);
}

TEST_AROUND(everybody_waits_for_the_slowest_rank, begin_tree, NULL) {
    open_unit(32, 32, 0, NULL, 0);
    answer_all(64, 1, 8192);
    double even = decode_ms();
    shares[7].load.context *= 2;
    struct step_time time = step_clock_step(unit, shares, OVERLAP_DECODE_FIVE_STAGE, 0);
    assert_true((double)time.ns * 1e-6 > even * 1.1);
    assert_true(time.spent[SPENT_IMBALANCE] > 0.1 * (double)time.ns * 1e-9 * 31);
    answer_all(64, 1, 8192);
    shares[7].slowness = 1.5;
    assert_true(decode_ms() > even * 1.2);
}

/* With as many answers as DeepSeek's decode GPUs have on average the processor hardly waits: SHARED
 * and ATTENTION_0, with an eighth of the core attention, take as long as a dispatch. */
TEST_AROUND(the_five_stage_table_hides_what_a_steady_load_sends, begin_tree, NULL) {
    open_unit(144, 32, 0, NULL, 0);
    answer_all(100, 1, 4989);
    struct step_time time = step_clock_step(unit, shares, OVERLAP_DECODE_FIVE_STAGE, 0);
    assert_true(time.spent[SPENT_COMM] < 0.01 * 144e-9 * (double)time.ns);
    time = step_clock_step(unit, shares, OVERLAP_SEQUENTIAL, 0);
    assert_true(time.spent[SPENT_COMM] > 0.3 * 144e-9 * (double)time.ns);
}

TEST_AROUND(all_time_is_accounted_for, begin_tree, NULL) {
    open_unit(144, 32, 1.1, NULL, 0);
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++) {
        double sum = 0;
        answer_all(88, 1, 4989);
        shares[3].load.prompt_tokens = 500;
        shares[3].load.attended = 500 * 251;
        struct step_time time = step_clock_step(unit, shares, (enum overlap_kind)kind, 0);
        for (int i = 0; i < STEP_SPENT_COUNT; i++) {
            assert_true(time.spent[i] >= 0);
            sum += time.spent[i];
        }
        assert_true(fabs(sum / (144e-9 * (double)time.ns) - 1) < 1e-3);
    }
}

TEST_AROUND(an_empty_step_takes_no_time_and_more_tokens_more, begin_tree, NULL) {
    open_unit(32, 32, 0.6, NULL, 0);
    memset(shares, 0, sizeof shares);
    assert_true(decode_ms() == 0);
    double before = 0;
    for (uint32_t requests = 8; requests <= 512; requests *= 2) {
        answer_all(requests, 1, 4096);
        assert_true(decode_ms() > before);
        before = decode_ms();
    }
}

TEST_AROUND(uneven_experts_cost_time_and_balancing_returns_most, begin_tree, NULL) {
    answer_all(88, 1, 4989);
    open_unit(32, 32, 0, NULL, 0);
    double even = decode_ms();
    open_unit(32, 32, 1.1, NULL, 0);
    double balanced = decode_ms();
    assert_true(step_clock_balance_mean(unit) < 1.1);
    open_unit(32, 0, 1.1, NULL, 0);
    assert_true(step_clock_balance_mean(unit) > 2);
    assert_true(decode_ms() > balanced * 1.2 && balanced < even * 1.05);
}

TEST_AROUND(hardware_that_lacks_what_a_unit_needs_is_refused, begin_tree, NULL) {
    open_unit(8, 32, 0, NULL, 0);
    options.ranks = 0;
    assert_int_equal(step_clock_open(&clock_arena, &options, &unit, &error), STATUS_INVALID);
    assert_string_equal(error.text, "expected 1 to 1024 ranks, and 1 or more on a node");
}
