/* SPDX-License-Identifier: Apache-2.0
 * Protects sampling: greedy and its ties, the cuts of top-k and top-p, frequencies that follow the
 * probabilities, the same token for the same seed and position, and no logits that can crash it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/model/sample.h"

#define VOCAB 300

static float logits[VOCAB], scratch[2 * VOCAB];

static void set_logits(float value) {
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = value;
}

static uint32_t sample(struct sampling sampling, uint32_t position) {
    return sample_token(logits, VOCAB, &sampling, position, scratch);
}

static void greedy_takes_the_first_of_the_largest(void **state) {
    set_logits(-1);
    logits[17] = logits[250] = 3;
    assert_int_equal(sample((struct sampling){.temperature = 0, .top_p = 1}, 0), 17);
    logits[3] = NAN;
    assert_int_equal(sample((struct sampling){.temperature = 0, .top_p = 1}, 0), 17);
}

static void top_k_and_top_p_cut(void **state) {
    set_logits(-20);
    logits[5] = 2;
    logits[9] = 1;
    logits[7] = 1; /* a tie: 7 stands before 9 */
    logits[1] = 0;
    bool seen[VOCAB] = {false};
    for (uint32_t i = 0; i < 2000; i++)
        seen[sample((struct sampling){.temperature = 1, .top_p = 1, .top_k = 2, .seed = 1}, i)] =
            true;
    assert_true(seen[5] && seen[7] && !seen[9] && !seen[1]);
    memset(seen, 0, sizeof seen);
    /* shares 0.53, 0.20, 0.20, 0.07: 0.6 needs the first two */
    for (uint32_t i = 0; i < 2000; i++)
        seen[sample((struct sampling){.temperature = 1, .top_p = 0.6f, .seed = 1}, i)] = true;
    assert_true(seen[5] && seen[7] && !seen[9] && !seen[1]);
    /* top-p over what top-k left: of 0.73, the first alone is 0.73 of it */
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < 2000; i++)
        seen[sample((struct sampling){.temperature = 1, .top_p = 0.7f, .top_k = 2, .seed = 1}, i)] =
            true;
    assert_true(seen[5] && !seen[7]);
    assert_int_equal(sample((struct sampling){.temperature = 1, .top_p = 0, .seed = 4}, 2), 5);
}

static void frequencies_follow_probabilities(void **state) {
    static const struct sampling ways[] = {
        {.temperature = 0.5f, .top_p = 1, .seed = 77},
        {.temperature = 0.5f, .top_p = 0.999999f, .seed = 77},
        {.temperature = 0.5f, .top_p = 1, .top_k = VOCAB - 1, .seed = 77},
    };
    set_logits(-100);
    for (uint32_t i = 0; i < 8; i++)
        logits[i * 30] = (float)i * 0.2f;
    double total = 0;
    for (uint32_t i = 0; i < 8; i++)
        total += exp((double)i * 0.4);
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
        uint32_t counts[VOCAB] = {0};
        for (uint32_t i = 0; i < 10000; i++)
            counts[sample(ways[way], i)]++;
        for (uint32_t i = 0; i < 8; i++) {
            double expected = 10000 * exp((double)i * 0.4) / total;
            assert_true(fabs(counts[i * 30] - expected) < 5 * sqrt(expected));
        }
    }
}

static void the_same_choice_is_made_again(void **state) {
    uint32_t different = 0;
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = (float)(i % 17) * 0.1f;
    for (uint32_t i = 0; i < 100; i++) {
        struct sampling sampling = {
            .temperature = 1, .top_p = 0.9f, .seed = i / 2, .choice = i % 2};
        uint32_t token = sample(sampling, i);
        assert_int_equal(token, sample(sampling, i));
        different += token != sample(sampling, i + 1);
    }
    assert_true(different > 80);
}

static void wild_logits_give_a_token(void **state) {
    static const float wild[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0, 1e-40f};
    static const float temperatures[] = {0, 1e-30f, 0.7f, 1e30f, NAN};
    for (uint32_t trial = 0; trial < 500; trial++) {
        for (uint32_t i = 0; i < VOCAB; i++)
            logits[i] = wild[(trial + i * (trial % 6)) % 7];
        struct sampling sampling = {.temperature = temperatures[trial % 5],
                                    .top_p = trial % 3 ? 0.9f : 1,
                                    .top_k = trial % 4,
                                    .seed = trial};
        assert_true(sample(sampling, trial) < VOCAB);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_first_of_the_largest),
        cmocka_unit_test(top_k_and_top_p_cut),
        cmocka_unit_test(frequencies_follow_probabilities),
        cmocka_unit_test(the_same_choice_is_made_again),
        cmocka_unit_test(wild_logits_give_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
