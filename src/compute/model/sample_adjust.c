/* SPDX-License-Identifier: Apache-2.0
 * Penalties and biases. A token's penalties depend only on whether it is in the history, and on its
 * count in the answer's part. The history is walked twice: first to count, then to apply penalties
 * once per token.
 */
#include "compute/model/sample.h"

#include <string.h>

#define SEEN_IN_PROMPT 0x80000000u /* in counts, in addition to the count */

bool sample_adjusts(const struct sampling *sampling, const struct sample_past *past) {
    return past->bias_count > 0 || (past->history_count > 0 && sampling_needs_history(sampling));
}

static void count_history(uint32_t vocab, const struct sample_past *past, uint32_t *counts) {
    memset(counts, 0, vocab * sizeof *counts);
    for (uint32_t i = 0; i < past->history_count; i++) {
        uint32_t token = past->history[i];
        if (token >= vocab) continue;
        if (i < past->prompt_count)
            counts[token] |= SEEN_IN_PROMPT;
        else
            counts[token]++;
    }
}

static float penalized(float logit, uint32_t count, const struct sampling *sampling) {
    float repetition = sampling->repetition_penalty;
    uint32_t output_count = count & ~SEEN_IN_PROMPT;
    if (repetition != 0) logit = logit > 0 ? logit / repetition : logit * repetition;
    if (output_count == 0) return logit;
    return logit - sampling->frequency_penalty * (float)output_count - sampling->presence_penalty;
}

void sample_adjust(float *logits, uint32_t vocab, const struct sampling *sampling,
                   const struct sample_past *past, uint32_t *counts) {
    if (past->history_count && sampling_needs_history(sampling)) {
        count_history(vocab, past, counts);
        for (uint32_t i = 0; i < past->history_count; i++) {
            uint32_t token = past->history[i];
            if (token >= vocab || counts[token] == 0) continue;
            logits[token] = penalized(logits[token], counts[token], sampling);
            counts[token] = 0;
        }
    }
    for (uint32_t i = 0; i < past->bias_count; i++)
        if (past->biases[i].token < vocab) logits[past->biases[i].token] += past->biases[i].bias;
}
