/* SPDX-License-Identifier: Apache-2.0
 * Log probabilities against log-softmax in double precision; the list's order and ties; logits that
 * are no numbers.
 */
#include <float.h>
#include <math.h>

#include "test_case.h"

#include "base/random.h"
#include "compute/model/sample.h"

enum { VOCAB = 400 };

TEST(they_are_the_log_softmax) {
    static struct token_logprob out[21];
    for (uint32_t trial = 0; trial < 200; trial++) {
        float logits[VOCAB];
        double sum = 0;
        for (uint32_t i = 0; i < VOCAB; i++) {
            logits[i] = (float)(random_uniform(trial, 0, i) * 30 - 15);
            if (trial % 3 == 0) logits[i] = roundf(logits[i]); /* many ties */
            sum += exp((double)logits[i]);
        }
        uint32_t chosen = trial % VOCAB;
        assert_int_equal(sample_logprobs(logits, VOCAB, chosen, 20, out), 21);
        assert_int_equal(out[0].token, chosen);
        for (uint32_t i = 0; i < 21; i++) {
            double expected = (double)logits[out[i].token] - log(sum);
            assert_true(fabs((double)out[i].logprob - expected) < 1e-5 * (1 + fabs(expected)));
        }
        for (uint32_t i = 1; i < 21; i++) { /* each is the first of those that are left */
            uint32_t best = UINT32_MAX;
            for (uint32_t id = 0; id < VOCAB; id++) {
                bool reported = false;
                for (uint32_t j = 1; j < i; j++)
                    reported |= out[j].token == id;
                if (!reported && (best == UINT32_MAX || logits[id] > logits[best])) best = id;
            }
            assert_int_equal(out[i].token, best);
        }
    }
}

TEST(few_are_reported_of_few) {
    struct token_logprob out[21];
    float logits[3] = {0, 0, 0};
    assert_int_equal(sample_logprobs(logits, 3, 2, 0, out), 1);
    assert_true(fabsf(out[0].logprob + logf(3)) < 1e-6f);
    assert_int_equal(sample_logprobs(logits, 3, 2, 20, out), 4);
    for (uint32_t i = 1; i < 4; i++)
        assert_int_equal(out[i].token, i - 1);
}

TEST(wild_logits_give_finite_numbers) {
    static const float wild[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0, 1e-40f};
    for (uint32_t trial = 0; trial < 343; trial++) {
        struct token_logprob out[4];
        float logits[3] = {wild[trial % 7], wild[trial / 7 % 7], wild[trial / 49]};
        assert_int_equal(sample_logprobs(logits, 3, trial % 3, 3, out), 4);
        for (uint32_t i = 0; i < 4; i++)
            assert_true(out[i].token < 3 && out[i].logprob <= 0 && out[i].logprob >= -FLT_MAX);
    }
}
