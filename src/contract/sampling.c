/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/sampling.h"

#include <float.h>
#include <math.h>

/* False for NaN. */
static bool sampling_within(float value, float low, float high) {
    return value >= low && value <= high;
}

bool sampling_valid(const struct sampling *sampling) {
    return sampling_within(sampling->temperature, 0, 100) &&
           sampling_within(sampling->top_p, 0, 1) && sampling_within(sampling->min_p, 0, 1) &&
           sampling_within(sampling->frequency_penalty, -2, 2) &&
           sampling_within(sampling->presence_penalty, -2, 2) &&
           sampling_within(sampling->repetition_penalty, 0, 100) &&
           sampling->top_logprobs <= LIMIT_TOP_LOGPROBS &&
           (sampling->flags & ~SAMPLING_FLAGS) == 0 && sampling->flags != SAMPLING_SCORES &&
           sampling->reserved == 0;
}

bool sampling_token_biases_valid(const struct token_bias *biases, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!sampling_within(biases[i].bias, -100, 100) && biases[i].bias != -INFINITY)
            return false;
    return true;
}

bool sampling_token_logprobs_valid(const struct token_logprob *logprobs, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (!sampling_within(logprobs[i].logprob, -FLT_MAX, 0)) return false;
    return true;
}
