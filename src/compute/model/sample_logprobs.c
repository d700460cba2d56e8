/* SPDX-License-Identifier: Apache-2.0
 * Log-softmax of one row for a few tokens: log p = logit - largest - log(sum of exp(logit -
 * largest)). The sum runs in double over ascending ids, so it does not depend on the requested
 * tokens. Scoring prompts needs many exponentials, so they come from the CPU's fastest kernels. All
 * kernel levels give the bits of kernels_exp.
 */
#include "compute/model/sample.h"

#include <float.h>
#include <math.h>

#include "base/check.h"

#include "compute/kernels/kernels.h"

static float sample_logprobs_clean(float logit) {
    float low = logit > -FLT_MAX ? logit : -FLT_MAX; /* NaN, too, becomes -FLT_MAX */
    return low < FLT_MAX ? low : FLT_MAX;
}

#define BLOCK 256 /* logits at a time */

static const struct kernels *best_kernels(void) {
    static const struct kernels *found; /* concurrent threads find the same */
    const struct kernels *kernels = __atomic_load_n(&found, __ATOMIC_RELAXED);
    if (kernels) return kernels;
    struct error error;
    enum status status = kernels_select(kernels_detect(), &kernels, &error);
    check(status == STATUS_OK);
    __atomic_store_n(&found, kernels, __ATOMIC_RELAXED);
    return kernels;
}

/* Inserts into a descending list of at most `room` entries, and returns its new length. Equal
 * logits stay in ascending order of ids, as lower ids are inserted first. */
static uint32_t sample_logprobs_insert(struct token_logprob *list, uint32_t count, uint32_t room,
                                       struct token_logprob entry) {
    if (count == room && !(entry.logprob > list[count - 1].logprob)) return count;
    uint32_t at = count < room ? count++ : count - 1;
    for (; at > 0 && entry.logprob > list[at - 1].logprob; at--)
        list[at] = list[at - 1];
    list[at] = entry;
    return count;
}

static float logprob_of(double logit, double largest, double log_sum) {
    double logprob = logit - largest - log_sum;
    return logprob < -(double)FLT_MAX ? -FLT_MAX : logprob < 0 ? (float)logprob : 0.0f;
}

uint32_t sample_logprobs(const float *logits, uint32_t vocab, uint32_t chosen, uint32_t top_count,
                         struct token_logprob *out) {
    const struct kernels *kernels = best_kernels();
    struct token_logprob *top = out + 1; /* first logits; converted to log probabilities below */
    uint32_t room = top_count < vocab ? top_count : vocab, count = 0;
    float largest = sample_logprobs_clean(kernels->maximum(logits, vocab)), block[BLOCK];
    double sum = 0;
    for (uint32_t first = 0; first < vocab; first += BLOCK) {
        uint32_t left = vocab - first, size = left < BLOCK ? left : BLOCK;
        for (uint32_t i = 0; i < size; i++) {
            block[i] = sample_logprobs_clean(logits[first + i]);
            if (room)
                count = sample_logprobs_insert(top, count, room,
                                               (struct token_logprob){first + i, block[i]});
        }
        kernels->exp_sum(block, block, 1, largest, size);
        for (uint32_t i = 0; i < size; i++)
            sum += (double)block[i];
    }
    double log_sum = log(sum);
    for (uint32_t i = 0; i < count; i++)
        top[i].logprob = logprob_of((double)top[i].logprob, (double)largest, log_sum);
    out[0] =
        (struct token_logprob){chosen, logprob_of((double)sample_logprobs_clean(logits[chosen]),
                                                  (double)largest, log_sum)};
    return 1 + count;
}
