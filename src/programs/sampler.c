/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/sampler.h"

#include <stdlib.h>
#include <string.h>

enum status sampler_open(struct sampler *sampler, uint32_t vocab, uint32_t token_capacity,
                         struct error *error) {
    sampler->vocab = vocab;
    sampler->token_capacity = token_capacity;
    sampler->tokens = malloc((token_capacity + (size_t)1) * sizeof *sampler->tokens);
    sampler->adjusted = malloc(vocab * sizeof *sampler->adjusted);
    sampler->scratch = malloc(2 * (size_t)vocab * sizeof *sampler->scratch);
    if (sampler->tokens && sampler->adjusted && sampler->scratch) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for choosing among %u tokens", vocab);
}

void sampler_close(struct sampler *sampler) {
    free(sampler->tokens);
    free(sampler->adjusted);
    free(sampler->scratch);
}

void sampler_apply(struct sampler *sampler, const struct sampler_values *values) {
    sampler->sampling.min_p = (float)values->min_p;
    sampler->sampling.frequency_penalty = (float)values->frequency_penalty;
    sampler->sampling.presence_penalty = (float)values->presence_penalty;
    sampler->sampling.repetition_penalty = (float)values->repetition_penalty;
}

void sampler_begin(struct sampler *sampler, const uint32_t *prompt, uint32_t prompt_count) {
    uint32_t count =
        prompt_count < sampler->token_capacity ? prompt_count : sampler->token_capacity;
    memcpy(sampler->tokens, prompt + (prompt_count - count), count * sizeof *prompt);
    sampler->token_count = sampler->prompt_count = count;
}

uint32_t sampler_choose(struct sampler *sampler, const float *logits) {
    uint32_t count = sampler->token_count, position = count - sampler->prompt_count;
    uint32_t left_out = count > LIMIT_HISTORY_TOKENS ? count - LIMIT_HISTORY_TOKENS : 0;
    struct sample_past past = {
        .history = sampler->tokens + left_out,
        .history_count = count - left_out,
        .prompt_count = sampler->prompt_count > left_out ? sampler->prompt_count - left_out : 0};
    if (sample_adjusts(&sampler->sampling, &past)) {
        memcpy(sampler->adjusted, logits, sampler->vocab * sizeof *logits);
        sample_adjust(sampler->adjusted, sampler->vocab, &sampler->sampling, &past,
                      (uint32_t *)(void *)sampler->scratch);
        logits = sampler->adjusted;
    }
    uint32_t token =
        sample_token(logits, sampler->vocab, &sampler->sampling, position, sampler->scratch);
    if (count < sampler->token_capacity) sampler->tokens[sampler->token_count++] = token;
    return token;
}
