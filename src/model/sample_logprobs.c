/* SPDX-License-Identifier: Apache-2.0
 * Log-softmax of one row for a few tokens: log p = logit - largest - log(sum of exp(logit -
 * largest)). The sum runs in double over ascending ids, so it does not depend on which tokens are
 * asked for.
 */
#include "model/sample.h"

#include <float.h>
#include <math.h>

#include "kernels/kernels.h"

static float clean(float logit) {
    if (logit != logit) return -FLT_MAX;
    return fminf(fmaxf(logit, -FLT_MAX), FLT_MAX);
}

/* Inserts into the descending list of at most `room`; returns its new length. An equal logit with a
 * lower id has come before and stays in front. */
static uint32_t insert(struct token_logprob *list, uint32_t count, uint32_t room,
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
    struct token_logprob *top = out + 1; /* logits first, turned into log probabilities below */
    uint32_t room = top_count < vocab ? top_count : vocab, count = 0;
    float largest = -FLT_MAX;
    double sum = 0;
    for (uint32_t i = 0; i < vocab; i++)
        largest = fmaxf(largest, clean(logits[i]));
    for (uint32_t i = 0; i < vocab; i++) {
        float logit = clean(logits[i]);
        sum += (double)kernels_exp(logit - largest);
        if (room) count = insert(top, count, room, (struct token_logprob){i, logit});
    }
    double log_sum = log(sum);
    for (uint32_t i = 0; i < count; i++)
        top[i].logprob = logprob_of((double)top[i].logprob, (double)largest, log_sum);
    out[0] = (struct token_logprob){
        chosen, logprob_of((double)clean(logits[chosen]), (double)largest, log_sum)};
    return 1 + count;
}
