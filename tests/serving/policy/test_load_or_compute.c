/* SPDX-License-Identifier: Apache-2.0
 * The choice between loading and computing: over a wide range of disks, links and models, learnt
 * from noisy measurements, what is chosen is never more than 5 % worse than the better of loading
 * everything and computing everything.
 */
#include "serving/policy/load_or_compute.h"

#include <math.h>

#include "base/limits.h"
#include "base/random.h"
#include "test_case.h"

struct truth { /* how it really is */
    double latency_ns, byte_ns, step_ns, token_ns, attended_ns;
};

static double noise(uint32_t seed, uint32_t i) { /* 0.97 .. 1.03 */
    return 0.97 + 0.06 * random_uniform(seed, 0, i);
}

static double load_ns(const struct truth *truth, uint64_t bytes) {
    return bytes ? truth->latency_ns + truth->byte_ns * (double)bytes : 0;
}

static double step_ns(const struct truth *truth, const struct step_work *work) {
    return truth->step_ns + truth->token_ns * work->prompt_tokens +
           truth->attended_ns * (double)work->attended;
}

static void learn(const struct truth *truth, uint32_t seed, struct load_rate *rate,
                  struct step_cost *cost, uint64_t block_bytes) {
    for (uint32_t i = 0; i < 2000; i++) {
        uint64_t bytes = (1 + i * 7 % 31) * block_bytes;
        load_or_compute_rate_observe(rate, bytes,
                                     (int64_t)(load_ns(truth, bytes) * noise(seed, i)));
        struct step_work work = {.answer_rows = 1};
        step_cost_observe(cost, &work, (int64_t)truth->step_ns);
        work = (struct step_work){0};
        step_cost_work_add(&work, i % 16 * 128, 64 + i % 4 * 64);
        step_cost_observe(cost, &work, (int64_t)(step_ns(truth, &work) * noise(seed, i + 5000)));
    }
}

/* Until the prompt is computed, when so many blocks are loaded first. */
static double really_ns(const struct truth *truth, const struct load_ask *ask, uint32_t blocks) {
    double sum = load_ns(truth, blocks * ask->block_bytes);
    for (uint32_t at = blocks * KV_BLOCK_TOKENS; at < ask->prompt_tokens;) {
        uint32_t tokens = ask->prompt_tokens - at;
        if (tokens > ask->chunk_tokens_max) tokens = ask->chunk_tokens_max;
        struct step_work work = {0};
        step_cost_work_add(&work, at, tokens);
        sum += step_ns(truth, &work);
        at += tokens;
    }
    return sum;
}

TEST(it_is_never_much_worse_than_the_better) {
    uint32_t loads = 0, computes = 0;
    for (uint32_t seed = 0; seed < 200; seed++) {
        uint64_t block_bytes = 106496;
        double disk = exp2(8 * random_uniform(seed, 1, 0)) / 8;     /* 8 GB/s .. 32 MB/s */
        double token = exp2(10 * random_uniform(seed, 1, 1)) * 100; /* 0.1 us .. 0.1 ms */
        struct truth truth = {2e6 * random_uniform(seed, 1, 2), disk, 2e5, token, token / 4000};
        struct load_rate rate = {0};
        struct step_cost cost = {0};
        learn(&truth, seed, &rate, &cost, block_bytes);
        for (uint32_t blocks = 1; blocks <= 31; blocks += 3) {
            struct load_ask ask = {.rate = &rate,
                                   .cost = &cost,
                                   .block_count = blocks,
                                   .prompt_tokens = blocks * KV_BLOCK_TOKENS + 30,
                                   .chunk_tokens_max = 512,
                                   .block_bytes = block_bytes};
            struct load_choice choice = load_or_compute(&ask);
            double all = really_ns(&truth, &ask, blocks), none = really_ns(&truth, &ask, 0);
            double chosen = really_ns(&truth, &ask, choice.load_blocks);
            assert_true(chosen <= 1.05 * (all < none ? all : none));
            loads += choice.load_blocks == blocks;
            computes += choice.load_blocks == 0;
        }
    }
    assert_true(loads > 200 && computes > 200); /* the range has both */
}

TEST(what_is_not_measured_is_tried) {
    struct load_rate rate = {0};
    struct step_cost cost = {0};
    struct load_ask ask = {
        .rate = &rate, .cost = &cost, .block_count = 4, .prompt_tokens = 300, .block_bytes = 1000};
    struct load_choice choice = load_or_compute(&ask);
    assert_int_equal(choice.load_blocks, 4);
    ask.block_count = 0;
    choice = load_or_compute(&ask);
    assert_int_equal(choice.load_blocks, 0);
}

/* With layers that overlap, part of each can be faster than either alone. */
TEST(a_mix_can_win) {
    struct truth truth = {1e5, 1, 0, 1e3, 0};
    struct load_rate rate = {0};
    struct step_cost cost = {0};
    learn(&truth, 3, &rate, &cost, 100000);
    struct load_ask ask = {.rate = &rate,
                           .cost = &cost,
                           .block_count = 30,
                           .prompt_tokens = 30 * KV_BLOCK_TOKENS + 10,
                           .chunk_tokens_max = 512,
                           .block_bytes = 100000,
                           .layers = 8};
    struct load_choice choice = load_or_compute(&ask);
    assert_true(choice.load_blocks > 3 && choice.load_blocks < 25);
    assert_true(choice.chosen_ns < choice.load_all_ns && choice.chosen_ns < choice.compute_all_ns);
}

TEST(rates_are_learnt) {
    struct load_rate rate = {0};
    for (uint32_t i = 1; i < 40; i++)
        load_or_compute_rate_observe(&rate, i % 9 * 100000, 500000 + i % 9 * 100000 / 2);
    assert_true(fabs(rate.latency_ns - 500000) < 5000 && fabs(rate.byte_ns - 0.5) < 0.01);
    rate = (struct load_rate){0};
    for (uint32_t i = 0; i < 9; i++) /* of one size: a mean, no latency below 0 */
        load_or_compute_rate_observe(&rate, 1000000, 1000000);
    assert_true(fabs(load_or_compute_rate_ns(&rate, 1000000) - 1e6) < 1 && rate.latency_ns >= 0);
    load_or_compute_rate_observe(&rate, 0, 5);
    load_or_compute_rate_observe(&rate, 5, 0);
    assert_true(fabs(load_or_compute_rate_ns(&rate, 1000000) - 1e6) < 1);
}
