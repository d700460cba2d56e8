/* SPDX-License-Identifier: Apache-2.0
 * Rows that wait for their load in a step: what the wait is said to be is what a step that goes
 * layer by layer really waits, alone a row always joins, and beside others never for more than its
 * part of the step.
 */
#include "serving/policy/load_in_step.h"

#include <math.h>

#include "base/random.h"
#include "test_case.h"

/* Part by part: each begins when the one before is computed and its slices are there. */
static double really_waits(const struct load_in_step_ask *ask) {
    double now_ns = 0;
    for (uint32_t part = 1; part <= ask->parts; part++) {
        double there_ns =
            ask->latency_ns + (ask->load_ns - ask->latency_ns) * part / (double)ask->parts;
        if (now_ns < there_ns) now_ns = there_ns;
        now_ns += ask->step_ns / ask->parts;
    }
    return now_ns - ask->step_ns;
}

static struct load_in_step_ask draw(uint32_t seed) {
    double load_ns = exp2(20 * random_uniform(seed, 0, 0)) * 1e3; /* 1 us .. 1 s */
    return (struct load_in_step_ask){.measured = true,
                                     .latency_ns = load_ns * random_uniform(seed, 0, 1),
                                     .load_ns = load_ns,
                                     .parts = 1 + (uint32_t)(random_uniform(seed, 0, 2) * 61),
                                     .step_ns = exp2(14 * random_uniform(seed, 0, 3)) * 1e5,
                                     .others = seed % 2};
}

TEST(the_wait_is_what_the_layers_wait) {
    for (uint32_t seed = 0; seed < 10000; seed++) {
        struct load_in_step_ask ask = draw(seed);
        double wait_ns = load_in_step(&ask).wait_ns, real_ns = really_waits(&ask);
        assert_true(fabs(wait_ns - real_ns) <= 1e-6 * (real_ns + ask.step_ns));
    }
}

TEST(others_wait_for_little_or_not_at_all) {
    uint32_t joined = 0, parked = 0;
    for (uint32_t seed = 0; seed < 10000; seed++) {
        struct load_in_step_ask ask = draw(seed);
        struct load_in_step_choice choice = load_in_step(&ask);
        bool little =
            really_waits(&ask) <= ask.step_ns * LOAD_IN_STEP_WAIT_PERCENT / 100 * (1 + 1e-9);
        if (!ask.others) assert_true(choice.joins);
        if (ask.others && choice.joins) assert_true(little);
        joined += ask.others && choice.joins;
        parked += ask.others && !choice.joins;
    }
    assert_true(joined > 300 && parked > 300);
}

TEST(what_is_not_measured_makes_nobody_wait) {
    struct load_in_step_ask ask = {.parts = 5, .step_ns = 1e9, .others = true};
    struct load_in_step_choice choice = load_in_step(&ask);
    assert_false(choice.joins);
    ask.others = false;
    choice = load_in_step(&ask);
    assert_true(choice.joins);
}

/* A load as long as the step hides behind it, if it comes in parts enough; in one part it never
 * does. */
TEST(a_load_hides_behind_a_step) {
    struct load_in_step_ask ask = {
        .measured = true, .load_ns = 1e8, .step_ns = 1e8, .others = true};
    ask.parts = 61;
    struct load_in_step_choice choice = load_in_step(&ask);
    assert_true(choice.joins && choice.wait_ns < 2e6);
    ask.parts = 1;
    choice = load_in_step(&ask);
    assert_true(!choice.joins && choice.wait_ns == 1e8);
    ask.parts = 61;
    ask.step_ns = 5e6; /* of answers alone */
    assert_false(load_in_step(&ask).joins);
}
