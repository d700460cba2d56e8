/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/sampling.h"

#include <float.h>
#include <math.h>

/* False for NaN. */
static bool within(float value, float low, float high) {
    return value >= low && value <= high;
}

bool sampling_valid(const struct sampling *sampling) {
    return within(sampling->temperature, 0, 100) && within(sampling->top_p, 0, 1) &&
           within(sampling->min_p, 0, 1) && within(sampling->frequency_penalty, -2, 2) &&
           within(sampling->presence_penalty, -2, 2) &&
           within(sampling->repetition_penalty, 0, 100) &&
           sampling->top_logprobs <= LIMIT_TOP_LOGPROBS &&
           (sampling->flags & ~SAMPLING_FLAGS) == 0 && sampling->flags != SAMPLING_SCORES &&
           sampling->reserved == 0;
}

bool token_biases_valid(const struct token_bias *biases, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!within(biases[i].bias, -100, 100) && biases[i].bias != -INFINITY) return false;
    return true;
}

bool token_logprobs_valid(const struct token_logprob *logprobs, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (!within(logprobs[i].logprob, -FLT_MAX, 0)) return false;
    return true;
}
