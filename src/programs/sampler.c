/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

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

/* ID:BIAS,ID:BIAS … */
static enum status read_biases(struct sampler *sampler, const char *text, struct error *error) {
    sampler->bias_count = 0;
    for (const char *at = text; at && *at;) {
        char *colon, *end;
        unsigned long token = strtoul(at, &colon, 10);
        double bias = *colon == ':' ? strtod(colon + 1, &end) : NAN;
        if (at[0] < '0' || at[0] > '9' || *colon != ':' || end == colon + 1 ||
            (*end && *end != ',') || (*end == ',' && !end[1]))
            return error_set(error, STATUS_INVALID,
                             "--logit-bias: expected ID:BIAS,ID:BIAS …, found '%.60s'", at);
        if (token >= sampler->vocab)
            return error_set(error, STATUS_INVALID,
                             "--logit-bias: %lu is not a token id: the vocabulary has %u", token,
                             sampler->vocab);
        if (!(bias >= -100 && bias <= 100))
            return error_set(error, STATUS_INVALID, "--logit-bias: %g is not between -100 and 100",
                             bias);
        if (sampler->bias_count == LIMIT_LOGIT_BIASES)
            return error_set(error, STATUS_TOO_LARGE, "--logit-bias: more than %d tokens",
                             LIMIT_LOGIT_BIASES);
        sampler->biases[sampler->bias_count++] =
            (struct token_bias){(uint32_t)token, bias == -100 ? -INFINITY : (float)bias};
        at = *end ? end + 1 : end;
    }
    return STATUS_OK;
}

enum status sampler_apply(struct sampler *sampler, const struct sampler_values *values,
                          const uint32_t *stops, uint32_t stop_count, struct error *error) {
    enum status status = read_biases(sampler, values->logit_bias, error);
    if (status != STATUS_OK) return status;
    check(stop_count <= LIMIT_ROW_BIASES - LIMIT_LOGIT_BIASES);
    sampler->stop_count = stop_count;
    for (uint32_t i = 0; i < stop_count; i++)
        sampler->biases[sampler->bias_count + i] = (struct token_bias){stops[i], -INFINITY};
    sampler->sampling.min_tokens = (uint32_t)values->min_tokens;
    sampler->sampling.min_p = (float)values->min_p;
    sampler->sampling.frequency_penalty = (float)values->frequency_penalty;
    sampler->sampling.presence_penalty = (float)values->presence_penalty;
    sampler->sampling.repetition_penalty = (float)values->repetition_penalty;
    return STATUS_OK;
}

bool sampler_ends(const struct sampler *sampler, uint32_t token) {
    for (uint32_t i = 0; i < sampler->stop_count; i++)
        if (sampler->biases[sampler->bias_count + i].token == token) return true;
    return false;
}

void sampler_begin(struct sampler *sampler, const uint32_t *prompt, uint32_t prompt_count) {
    uint32_t count =
        prompt_count < sampler->token_capacity ? prompt_count : sampler->token_capacity;
    memcpy(sampler->tokens, prompt + (prompt_count - count), count * sizeof *prompt);
    sampler->token_count = sampler->prompt_count = count;
}

uint32_t sampler_choose(struct sampler *sampler, const float *logits, const uint64_t *mask) {
    uint32_t count = sampler->token_count, position = count - sampler->prompt_count;
    uint32_t left_out = count > LIMIT_HISTORY_TOKENS ? count - LIMIT_HISTORY_TOKENS : 0;
    struct sample_past past = {
        .history = sampler->tokens + left_out,
        .history_count = count - left_out,
        .prompt_count = sampler->prompt_count > left_out ? sampler->prompt_count - left_out : 0,
        .biases = sampler->biases,
        .bias_count = sampler->bias_count +
                      (position < sampler->sampling.min_tokens ? sampler->stop_count : 0)};
    if (sample_adjusts(&sampler->sampling, &past)) {
        memcpy(sampler->adjusted, logits, sampler->vocab * sizeof *logits);
        sample_adjust(sampler->adjusted, sampler->vocab, &sampler->sampling, &past,
                      (uint32_t *)(void *)sampler->scratch);
        if (!mask || sample_leaves_any(sampler->adjusted, sampler->vocab, mask))
            logits = sampler->adjusted;
    }
    uint32_t token =
        sample_token(logits, sampler->vocab, &sampler->sampling, position, mask, sampler->scratch);
    if (count < sampler->token_capacity) sampler->tokens[sampler->token_count++] = token;
    return token;
}
