/* SPDX-License-Identifier: Apache-2.0
 * The whole way from logits to a token against a plain reading of the rules in double precision:
 * penalties, biases, masks, temperature, min-p, top-k, top-p, the draw. Random cases with ties and
 * extreme values; and each rule alone, by hand.
 */
#include <math.h>

#include "test_case.h"

#include "base/check.h"
#include "base/random.h"
#include "compute/model/sample.h"

enum { VOCAB = 50 };

static uint32_t counts[VOCAB];
static float scratch[2 * VOCAB];

/* ---- the rules, plainly ---- */

static void plain_adjust(double *logits, const struct sampling *sampling,
                         const struct sample_past *past) {
    for (uint32_t id = 0; id < VOCAB; id++) {
        bool seen = false;
        double said = 0;
        for (uint32_t i = 0; i < past->history_count; i++) {
            if (past->history[i] != id) continue;
            seen = true;
            said += i >= past->prompt_count;
        }
        double penalty = (double)sampling->repetition_penalty;
        if (seen && penalty != 0)
            logits[id] = logits[id] > 0 ? logits[id] / penalty : logits[id] * penalty;
        logits[id] -= (double)sampling->frequency_penalty * said;
        if (said > 0) logits[id] -= (double)sampling->presence_penalty;
        for (uint32_t i = 0; i < past->bias_count; i++)
            if (past->biases[i].token == id) logits[id] += (double)past->biases[i].bias;
    }
}

static const double *order_logits;

static int by_logit(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (order_logits[a] != order_logits[b]) return order_logits[a] > order_logits[b] ? -1 : 1;
    return a < b ? -1 : 1;
}

/* So near that rounding may decide otherwise. */
static bool near(double a, double b) {
    return fabs(a - b) < 1e-5 * (fabs(a) + fabs(b) + 1e-3);
}

/* The token; *doubt_out if a comparison was too near to call. */
static uint32_t plain_sample(const double *logits, const struct sampling *sampling,
                             uint32_t position, bool *doubt_out) {
    uint32_t order[VOCAB], count = VOCAB, kept = 0;
    double weights[VOCAB], total = 0, sum = 0;
    *doubt_out = false;
    for (uint32_t i = 0; i < VOCAB; i++)
        order[i] = i;
    order_logits = logits;
    qsort(order, VOCAB, sizeof *order, by_logit);
    for (uint32_t i = 0; i + 1 < VOCAB; i++) /* equal in float, unequal in double */
        *doubt_out |= logits[order[i]] != logits[order[i + 1]] &&
                      near(logits[order[i]], logits[order[i + 1]]);
    double temperature = (double)sampling->temperature;
    if (temperature == 0) return order[0];
    for (uint32_t i = 0; i < VOCAB; i++)
        weights[i] = exp((logits[order[i]] - logits[order[0]]) / temperature);
    while (count > 1 && weights[count - 1] < (double)sampling->min_p)
        count--;
    if (count < VOCAB) *doubt_out |= near(weights[count], (double)sampling->min_p);
    *doubt_out |= near(weights[count - 1], (double)sampling->min_p);
    if (sampling->top_k && sampling->top_k < count) count = sampling->top_k;
    for (uint32_t i = 0; i < count; i++)
        total += weights[i];
    double share = 0;
    while (kept < count && (kept == 0 || share < (double)sampling->top_p * total)) {
        share += weights[kept++];
        *doubt_out |= sampling->top_p < 1 && near(share, (double)sampling->top_p * total);
    }
    if (sampling->top_p == 1) kept = count;
    for (share = 0, count = 0; count < kept; count++)
        share += weights[count];
    double target = random_uniform(sampling->seed, sampling->choice, position) * share;
    for (uint32_t i = 0; i < kept; i++) {
        sum += weights[i];
        *doubt_out |= near(sum, target);
        if (sum > target) return order[i];
    }
    return order[kept - 1];
}

/* ---- random cases ---- */

static uint32_t draw, trial;

static uint32_t below(uint32_t bound) {
    return (uint32_t)(random_uniform(trial, 3, draw++) * bound);
}

static struct sampling random_sampling(void) {
    static const float temperatures[] = {0, 0.1f, 0.7f, 1, 2};
    static const float penalties[] = {-2, -0.3f, 0, 0, 0.5f, 2};
    static const float repetitions[] = {0, 1, 1, 0.5f, 1.3f, 10};
    static const float shares[] = {0, 0.3f, 0.9f, 1, 1};
    static const float least[] = {0, 0, 0.05f, 0.5f, 1};
    return (struct sampling){.temperature = temperatures[below(5)],
                             .top_p = shares[below(5)],
                             .min_p = least[below(5)],
                             .top_k = below(3) ? 0 : 1 + below(VOCAB + 5),
                             .frequency_penalty = penalties[below(6)],
                             .presence_penalty = penalties[below(6)],
                             .repetition_penalty = repetitions[below(6)],
                             .choice = below(4),
                             .seed = trial};
}

TEST(it_follows_the_rules) {
    uint32_t doubts = 0, compared = 0, different = 0;
    for (trial = 0; trial < 20000; trial++) {
        float logits[VOCAB];
        double plain[VOCAB];
        uint32_t history[40];
        struct token_bias biases[12];
        draw = 0;
        bool ties = below(3) == 0, wild = below(5) == 0;
        for (uint32_t i = 0; i < VOCAB; i++) {
            float value = (float)(random_uniform(trial, 4, i) * 12 - 6);
            logits[i] = ties ? floorf(value) : wild && i % 7 == 0 ? value * 1e30f : value;
            plain[i] = (double)logits[i];
        }
        struct sample_past past = {.history = history, .biases = biases};
        past.history_count = below(3) ? below(40) : 0;
        past.prompt_count = below(past.history_count + 1);
        past.bias_count = below(3) ? 0 : below(12);
        for (uint32_t i = 0; i < past.history_count; i++)
            history[i] = below(VOCAB);
        for (uint32_t i = 0; i < past.bias_count; i++)
            biases[i] =
                (struct token_bias){below(VOCAB), below(4) ? (float)below(200) - 100 : -INFINITY};
        struct sampling sampling = random_sampling();
        bool doubt;
        uint32_t raw = sample_token(logits, VOCAB, &sampling, 7, NULL, scratch);
        if (sample_adjusts(&sampling, &past))
            sample_adjust(logits, VOCAB, &sampling, &past, counts);
        uint32_t token = sample_token(logits, VOCAB, &sampling, 7, NULL, scratch);
        plain_adjust(plain, &sampling, &past);
        uint32_t expected = plain_sample(plain, &sampling, 7, &doubt);
        doubts += doubt;
        compared += !doubt;
        different += token != raw;
        if (!doubt && token != expected)
            fail_msg("trial %u: token %u, expected %u", trial, token, expected);
    }
    assert_true(compared > 12000 && different > 4000);
}

/* ---- each rule alone ---- */

TEST(penalties_are_those_computed_by_hand) {
    static const uint32_t history[] = {1, 2, 2, /* answer: */ 2, 3, 3, 3, 4000000};
    static const float expected[] = {4, 2, 2 - 0.5f - 1, 2 - 1.5f - 1, -4};
    float logits[VOCAB] = {4, 4, 4, 4, -4};
    struct sampling sampling = {
        .repetition_penalty = 2, .frequency_penalty = 0.5f, .presence_penalty = 1};
    struct sample_past past = {.history = history, .history_count = 8, .prompt_count = 3};
    assert_true(sample_adjusts(&sampling, &past));
    sample_adjust(logits, VOCAB, &sampling, &past, counts);
    for (uint32_t i = 0; i < 5; i++)
        assert_true(logits[i] == expected[i]);
    float negative[VOCAB] = {[1] = -3};
    past.history_count = 1;
    sample_adjust(negative, VOCAB, &sampling, &past, counts);
    assert_true(negative[1] == -6.0f);
}

TEST(a_ban_and_a_push_win) {
    float logits[VOCAB] = {[7] = 30, [8] = 29};
    struct token_bias biases[] = {{7, -INFINITY}, {9, 100}, {UINT32_MAX, 100}};
    struct sample_past past = {.biases = biases, .bias_count = 1};
    struct sampling sampling = {.temperature = 2, .top_p = 1, .seed = 3};
    assert_true(sample_adjusts(&sampling, &past));
    sample_adjust(logits, VOCAB, &sampling, &past, counts);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_not_equal(sample_token(logits, VOCAB, &sampling, i, NULL, scratch), 7);
    past.bias_count = 3;
    sample_adjust(logits, VOCAB, &sampling, &past, counts);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(sample_token(logits, VOCAB, &sampling, i, NULL, scratch), 9);
}

TEST(nothing_asked_changes_nothing) {
    static const uint32_t history[] = {1, 2};
    struct sample_past past = {.history = history, .history_count = 2};
    struct sampling sampling = {.temperature = 1, .top_p = 0.5f, .min_p = 0.1f};
    assert_false(sample_adjusts(&sampling, &past));
    sampling.repetition_penalty = 1;
    assert_false(sample_adjusts(&sampling, &past));
    sampling.presence_penalty = -1;
    assert_true(sample_adjusts(&sampling, &past));
    past.history_count = 0;
    assert_false(sample_adjusts(&sampling, &past));
}
