/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/step_cost.h"

#include "base/random.h"
#include "test_case.h"

/* A machine: 2 ms a step, 20 us a row, 50 us a prompt token, 10 ns a position read. */
static double truth_ns(const struct step_work *work) {
    return 2e6 + 2e4 * work->answer_rows + 5e4 * work->prompt_tokens +
           10.0 * (double)work->attended;
}

static struct step_work random_work(uint64_t seed, uint32_t draw) {
    struct step_work work = {.answer_rows = (uint32_t)(random_uniform(seed, 0, draw) * 32)};
    if (random_uniform(seed, 1, draw) < 0.4)
        step_cost_work_add(&work, (uint32_t)(random_uniform(seed, 2, draw) * 32) * 64,
                           64 * (1 + (uint32_t)(random_uniform(seed, 3, draw) * 8)));
    return work;
}

/* From noisy measurements with outliers, over any seed: predictions within a quarter. */
TEST(predictions_come_near_the_truth) {
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct step_cost cost = {0};
        for (uint32_t i = 0; i < 600; i++) {
            struct step_work work = random_work(seed, i);
            double noise = 0.95 + 0.1 * random_uniform(seed, 4, i);
            if (random_uniform(seed, 5, i) < 0.01) noise = 30;
            step_cost_observe(&cost, &work, (int64_t)(truth_ns(&work) * noise));
        }
        double off = 0;
        for (uint32_t i = 1000; i < 1100; i++) {
            struct step_work work = random_work(seed, i);
            double ratio = step_cost_ns(&cost, &work) / truth_ns(&work);
            off += ratio > 1 ? ratio - 1 : 1 - ratio;
        }
        assert_true(off / 100 < 0.25);
    }
}

/* Where only one load is ever seen, its time is right and nothing runs away. */
TEST(a_steady_load_is_learnt) {
    struct step_cost cost = {0};
    struct step_work work = {.answer_rows = 8};
    for (int i = 0; i < 100000; i++)
        step_cost_observe(&cost, &work, 3000000);
    assert_true(step_cost_ns(&cost, &work) > 2999000 && step_cost_ns(&cost, &work) < 3001000);
    step_cost_observe(&cost, &work, -5); /* no measurement at all */
    step_cost_observe(&cost, &work, 0);
    assert_true(step_cost_ns(&cost, &work) > 2999000);
}

/* The longest run is affordable, and one token more is not. */
TEST(what_can_be_afforded_is_exact) {
    const struct step_cost cost = {.weights = {5e6, 1e6, 3e5, 2e5}};
    for (uint32_t first = 0; first < 100000; first += 3000)
        for (double ns = 0; ns < 4e6; ns += 77777) {
            uint32_t tokens = step_cost_afford(&cost, first, 512, ns);
            if (tokens > 0) assert_true(step_cost_run_ns(&cost, first, tokens) <= ns);
            if (tokens < 512) assert_true(step_cost_run_ns(&cost, first, tokens + 1) > ns);
        }
    assert_int_equal(step_cost_afford(&(struct step_cost){0}, 0, 512, 0), 512);
}
