/* SPDX-License-Identifier: Apache-2.0
 * All loops are plain and run in ascending expert id. They take a few thousand operations per
 * token, little compared with the experts, and the arithmetic is the same on every CPU.
 */
#include "compute/model/router.h"

#include "base/check.h"
#include "compute/kernels/kernels.h"

#include <math.h>

/* ln(1 + e^x), without overflow. */
static double router_softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static void router_score(const struct shape *shape, const float *logits,
                         float *scores /* [experts] */) {
    uint32_t count = shape->experts;
    if (shape->scoring == ROUTER_SIGMOID) {
        for (uint32_t e = 0; e < count; e++)
            scores[e] = 1.0f / (1.0f + kernels_exp(-logits[e]));
        return;
    }
    if (shape->scoring == ROUTER_SQRT_SOFTPLUS) {
        for (uint32_t e = 0; e < count; e++)
            scores[e] = (float)sqrt(router_softplus((double)logits[e]));
        return;
    }
    float largest = logits[0], sum = 0;
    for (uint32_t e = 1; e < count; e++)
        if (logits[e] > largest) largest = logits[e];
    for (uint32_t e = 0; e < count; e++)
        sum += scores[e] = kernels_exp(logits[e] - largest);
    for (uint32_t e = 0; e < count; e++)
        scores[e] /= sum;
}

/* Takes the largest value that is not yet taken; the first of equal ones. Returns its index. */
static uint32_t take_largest(const float *values, bool *taken, uint32_t count) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++)
        if (!taken[i] && (best == UINT32_MAX || values[i] > values[best])) best = i;
    taken[best] = true;
    return best;
}

static float group_score(const float *choices, uint32_t count, bool two_largest) {
    float first = -INFINITY, second = -INFINITY;
    for (uint32_t e = 0; e < count; e++) {
        /* The analyzer does not know that groups divide the experts.
         * NOLINTNEXTLINE(clang-analyzer-*) */
        if (choices[e] > first) {
            second = first;
            first = choices[e];
        } else if (choices[e] > second) {
            second = choices[e];
        }
    }
    return two_largest && count > 1 ? first + second : first;
}

static void drop_groups(const struct shape *shape, float *choices /* [experts] */) {
    float group_scores[LIMIT_EXPERTS];
    bool kept[LIMIT_EXPERTS] = {false};
    uint32_t size = shape->experts / shape->groups;
    for (uint32_t g = 0; g < shape->groups; g++)
        group_scores[g] = group_score(choices + g * size, size, shape->method == ROUTER_NOAUX_TC);
    for (uint32_t i = 0; i < shape->groups_kept; i++)
        take_largest(group_scores, kept, shape->groups);
    for (uint32_t e = 0; e < shape->experts; e++)
        if (!kept[e / size]) choices[e] = -INFINITY;
}

static void router_weigh(const struct shape *shape, float *weights /* [experts_per_token] */) {
    uint32_t count = shape->experts_per_token;
    if (shape->normalize_weights) {
        float sum = 0;
        for (uint32_t i = 0; i < count; i++)
            sum += weights[i];
        for (uint32_t i = 0; i < count; i++)
            weights[i] /= sum + 1e-20f;
    }
    for (uint32_t i = 0; i < count; i++)
        weights[i] *= shape->routed_scaling;
}

void router_weigh_hashed(const struct shape *shape, const float *logits, const float *hashed,
                         uint32_t *experts_out, float *weights_out) {
    float scores[LIMIT_EXPERTS];
    check(shape->experts <= LIMIT_EXPERTS);
    router_score(shape, logits, scores);
    for (uint32_t i = 0; i < shape->experts_per_token; i++) { /* ascending, as all choices are */
        uint32_t expert = (uint32_t)hashed[i], at = i;
        for (; at > 0 && experts_out[at - 1] > expert; at--)
            experts_out[at] = experts_out[at - 1];
        experts_out[at] = expert;
    }
    for (uint32_t i = 0; i < shape->experts_per_token; i++)
        weights_out[i] = scores[experts_out[i]];
    router_weigh(shape, weights_out);
}

void router_choose(const struct shape *shape, const float *logits, const float *bias,
                   uint32_t *experts_out, float *weights_out) {
    float scores[LIMIT_EXPERTS], choices[LIMIT_EXPERTS];
    bool taken[LIMIT_EXPERTS] = {false};
    check(shape->experts <= LIMIT_EXPERTS && shape->experts_per_token <= shape->experts);
    router_score(shape, logits, scores);
    for (uint32_t e = 0; e < shape->experts; e++)
        choices[e] = bias ? scores[e] + bias[e] : scores[e];
    if (shape->groups > 1 && shape->method != ROUTER_GREEDY) drop_groups(shape, choices);
    for (uint32_t i = 0; i < shape->experts_per_token; i++)
        take_largest(choices, taken, shape->experts);
    uint32_t count = 0;
    for (uint32_t e = 0; e < shape->experts; e++) {
        if (!taken[e]) continue;
        experts_out[count] = e;
        weights_out[count++] = scores[e];
    }
    router_weigh(shape, weights_out);
}
