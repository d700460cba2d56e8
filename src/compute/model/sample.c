/* SPDX-License-Identifier: Apache-2.0
 * Chooses the next token. Greedy takes the largest logit. Otherwise candidates are taken in
 * descending order of logits, ties by ascending id. top-k and top-p each keep the first candidates
 * (top-p: the fewest with a share of at least top_p of those left by min-p and top-k). A number
 * from Philox chooses among the kept ones. Weights are integers (draw_rule.h), so every sum is
 * exact.
 *
 * A heap yields the candidates in order as they are needed, so a short nucleus out of 129,280
 * tokens costs one pass, not a sort. Exponentials come from kernels_exp, which is the same on every
 * CPU.
 */
#include "compute/model/sample.h"

#include <float.h>
#include <math.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/random.h"
#include "compute/kernels/kernels.h"

/* Makes logits totally ordered: NaN is the smallest, infinities are the largest finite numbers. */
static float sample_clean(float logit) {
    if (logit != logit) return -FLT_MAX;
    return fminf(fmaxf(logit, -FLT_MAX), FLT_MAX);
}

/* The mask's first token from `from` on; without a mask, `from`. At least vocab if there is
 * none. */
static inline uint32_t sample_next_of(const uint64_t *mask, uint32_t vocab, uint32_t from) {
    if (!mask || from >= vocab) return from;
    uint32_t word = from / 64;
    uint64_t left = mask[word] >> from % 64 << from % 64;
    while (!left && ++word < divide_up(vocab, 64))
        left = mask[word];
    return left ? word * 64 + (uint32_t)__builtin_ctzll(left) : vocab;
}

/* The most likely token of the mask; at least vocab if the mask is empty. */
static uint32_t greedy(const float *logits, uint32_t vocab, const uint64_t *mask) {
    uint32_t best = sample_next_of(mask, vocab, 0);
    for (uint32_t i = sample_next_of(mask, vocab, best + 1); i < vocab;
         i = sample_next_of(mask, vocab, i + 1))
        if (sample_clean(logits[i]) > sample_clean(logits[best])) best = i;
    return best;
}

bool sample_leaves_any(const float *logits, uint32_t vocab, const uint64_t *mask) {
    uint32_t best = greedy(logits, vocab, mask);
    return best < vocab && logits[best] > -INFINITY;
}

static bool sample_comes_before(const void *logits, const void *a, const void *b) {
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    float logit_a = sample_clean(((const float *)logits)[one]);
    float logit_b = sample_clean(((const float *)logits)[other]);
    return logit_a > logit_b || (logit_a == logit_b && one < other);
}

static const struct heap_order candidates_order = {sizeof(uint32_t), sample_comes_before, NULL};

struct candidates {
    const float *logits;
    float *weights; /* of each candidate, by id */
    uint32_t *heap; /* once taken, the i-th candidate of `all` is in heap[all - 1 - i] */
    uint32_t all, taken;
    uint64_t total; /* weight of all */
};

/* The i-th candidate: one that was taken, or the next. */
static uint32_t candidate(struct candidates *of, uint32_t i) {
    if (i == of->taken) heap_pop(&candidates_order, of->logits, of->heap, of->all - of->taken++);
    return of->heap[of->all - 1 - i];
}

static uint64_t units_of(float weight) {
    return (uint64_t)(weight * DRAW_UNITS);
}

/* A token's weight; 0: min-p drops it. */
static float sample_weigh(float logit, float largest, const struct draw_rule *rule) {
    float x = (logit - largest) / rule->temperature;
    float weight = x < DRAW_LOWEST ? 0 : kernels_exp(x);
    return weight >= rule->min_p ? weight : 0;
}

/* The candidates with a weight above 0. */

static struct candidates find_candidates(const float *logits, uint32_t vocab, uint32_t best,
                                         const struct draw_rule *rule, const uint64_t *mask,
                                         float *scratch) {
    struct candidates of = {
        .logits = logits, .weights = scratch, .heap = (uint32_t *)(void *)(scratch + vocab)};
    float largest = sample_clean(logits[best]);
    for (uint32_t i = sample_next_of(mask, vocab, 0); i < vocab;
         i = sample_next_of(mask, vocab, i + 1)) {
        float weight = sample_weigh(sample_clean(logits[i]), largest, rule);
        uint64_t units = units_of(weight);
        if (!units) continue;
        of.weights[i] = weight;
        of.heap[of.all++] = i;
        of.total += units;
    }
    heap_make(&candidates_order, logits, of.heap, of.all);
    return of;
}

/* `share` times a sum, rounded up; at least 1. */
static uint64_t sample_share_of(uint64_t sum, float share) {
    double exact = (double)share * (double)sum;
    uint64_t whole = (uint64_t)exact;
    if ((double)whole < exact) whole++;
    return whole < 1 ? 1 : whole < sum ? whole : sum;
}

/* A point in [0, sum). */
static uint64_t point_in(uint64_t sum, double uniform) {
    uint64_t point = (uint64_t)(uniform * (double)sum);
    return point < sum ? point : sum - 1;
}

static uint64_t candidate_units(struct candidates *of, uint32_t i) {
    return units_of(of->weights[candidate(of, i)]);
}

static uint32_t sample_draw_each(struct candidates *of, const struct draw_rule *rule) {
    uint64_t kept = of->total, sum = 0;
    if (rule->top_k && rule->top_k < of->all) {
        kept = 0;
        for (uint32_t i = 0; i < rule->top_k; i++)
            kept += candidate_units(of, i);
    }
    if (rule->top_p < 1) { /* of the tokens that min-p and top-k left */
        uint64_t wanted = sample_share_of(kept, rule->top_p);
        for (uint32_t i = 0; sum < wanted; i++)
            sum += candidate_units(of, i);
        kept = sum;
    }
    uint64_t point = point_in(kept, rule->uniform);
    uint32_t count = 0;
    for (sum = 0; sum <= point; count++)
        sum += candidate_units(of, count);
    return candidate(of, count - 1);
}

uint32_t sample_draw(const float *logits, uint32_t vocab, const struct draw_rule *rule,
                     const uint64_t *mask, float *scratch) {
    uint32_t best = greedy(logits, vocab, mask);
    check(best < vocab);
    if (!(rule->temperature > 0)) return best;
    struct candidates of = find_candidates(logits, vocab, best, rule, mask, scratch);
    return sample_draw_each(&of, rule);
}

static float within_one(float share) {
    return share < 1 ? fmaxf(share, 0) : 1;
}

struct draw_rule sample_rule(const struct sampling *sampling, uint32_t output_position) {
    struct draw_rule rule = {.top_p = 1};
    if (!(sampling->temperature > 0)) return rule;
    rule.temperature = sampling->temperature;
    rule.top_p = within_one(sampling->top_p);
    rule.min_p = within_one(sampling->min_p);
    rule.top_k = sampling->top_k;
    rule.uniform = random_uniform(sampling->seed, sampling->choice, output_position);
    return rule;
}

uint32_t sample_token(const float *logits, uint32_t vocab, const struct sampling *sampling,
                      uint32_t output_position, const uint64_t *mask, float *scratch) {
    struct draw_rule rule = sample_rule(sampling, output_position);
    return sample_draw(logits, vocab, &rule, mask, scratch);
}
