/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/step_cost.h"

#include <stdbool.h>

/* Units that scale the parts of a usual step to numbers near 1, so that an error is distributed
 * evenly over the weights. */
#define ROWS_UNIT 16.0
#define TOKENS_UNIT 64.0
#define ATTENDED_UNIT (64.0 * 1024)
#define CONTEXT_UNIT 1024.0
#define RATE_STEPS 10 /* after this many steps, one step corrects a tenth of its error */
#define TRUSTED_AFTER 8

static void step_cost_features_of(const struct step_work *work,
                                  double features[STEP_COST_WEIGHTS]) {
    features[STEP_COST_FIXED] = 1;
    features[STEP_COST_ROWS] = work->answer_rows / ROWS_UNIT;
    features[STEP_COST_DRAFTS] = work->drafts / ROWS_UNIT;
    features[STEP_COST_TOKENS] = work->prompt_tokens / TOKENS_UNIT;
    features[STEP_COST_ATTENDED] = (double)work->attended / ATTENDED_UNIT;
    features[STEP_COST_CONTEXT] = (double)work->context / CONTEXT_UNIT;
}

void step_cost_work_add(struct step_work *work, uint32_t first_position, uint32_t token_count) {
    uint64_t count = token_count;
    work->prompt_tokens += token_count;
    work->attended += count * first_position + count * (count + 1) / 2;
    if (count) work->context += first_position + count;
}

double step_cost_ns(const struct step_cost *cost, const struct step_work *work) {
    double features[STEP_COST_WEIGHTS], sum = 0;
    step_cost_features_of(work, features);
    for (int i = 0; i < STEP_COST_WEIGHTS; i++)
        sum += cost->weights[i] * features[i];
    return sum;
}

void step_cost_observe(struct step_cost *cost, const struct step_work *work, int64_t ns) {
    if (ns <= 0) return;
    bool prompts = work->prompt_tokens > 0;
    int first = prompts ? STEP_COST_TOKENS : STEP_COST_FIXED;
    int end = prompts ? STEP_COST_WEIGHTS : STEP_COST_TOKENS;
    double features[STEP_COST_WEIGHTS], power = 0;
    step_cost_features_of(work, features);
    for (int i = first; i < end; i++)
        power += features[i] * features[i];
    uint32_t *observed = &cost->observed[prompts];
    double predicted = step_cost_ns(cost, work), error = (double)ns - predicted;
    if (*observed >= TRUSTED_AFTER && error > predicted) error = predicted;
    if (*observed < RATE_STEPS) ++*observed;
    for (int i = first; i < end; i++) {
        cost->weights[i] += error * features[i] / power / *observed;
        if (cost->weights[i] < 0) cost->weights[i] = 0;
    }
}

double step_cost_run_ns(const struct step_cost *cost, uint32_t first_position,
                        uint32_t token_count) {
    struct step_work work = {0};
    step_cost_work_add(&work, first_position, token_count);
    return step_cost_ns(cost, &work) - cost->weights[STEP_COST_FIXED];
}

double step_cost_attended_ns(const struct step_cost *cost) {
    return cost->weights[STEP_COST_ATTENDED] / ATTENDED_UNIT;
}

double step_cost_context_ns(const struct step_cost *cost) {
    return cost->weights[STEP_COST_CONTEXT] / CONTEXT_UNIT;
}

uint32_t step_cost_afford(const struct step_cost *cost, uint32_t first_position,
                          uint32_t tokens_max, double ns) {
    /* invariant: `low` is affordable, more than `high` is not */
    uint32_t low = 0, high = tokens_max;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (step_cost_run_ns(cost, first_position, middle) <= ns)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}
