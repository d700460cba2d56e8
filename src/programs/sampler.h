/* SPDX-License-Identifier: Apache-2.0
 * Sampling for `generate` and `chat`: the options for penalties, logit biases, min-p and the
 * minimum length, and the history of tokens that penalties need.
 */
#pragma once

#include "base/status.h"
#include "command/command.h"
#include "compute/model/sample.h"

struct sampler_values {
    double min_p, frequency_penalty, presence_penalty, repetition_penalty;
    uint64_t min_tokens;
    const char *logit_bias;
};

/* Rows for an option table of values of type TYPE, which must have a member `sampler`. */
#define SAMPLER_OPTIONS(TYPE)                                                                      \
    OPTION_ROW("min-p", OPTION_NUMBER, "0",                                                        \
               "sample from tokens with at least this share of the likeliest token's probability", \
               .offset = offsetof(TYPE, sampler.min_p), .needs = "=greedy", .minimum = 0,          \
               .maximum = 1),                                                                      \
        OPTION_ROW("frequency-penalty", OPTION_NUMBER, "0",                                        \
                   "lower a token for each time it occurs in the answer",                          \
                   .offset = offsetof(TYPE, sampler.frequency_penalty), .minimum = -2,             \
                   .maximum = 2),                                                                  \
        OPTION_ROW("presence-penalty", OPTION_NUMBER, "0",                                         \
                   "lower a token once if it occurs in the answer",                                \
                   .offset = offsetof(TYPE, sampler.presence_penalty), .minimum = -2,              \
                   .maximum = 2),                                                                  \
        OPTION_ROW("logit-bias", OPTION_TEXT, NULL,                                                \
                   "add biases of -100 (never) to 100 (always) to tokens' logits, as "             \
                   "ID:BIAS,ID:BIAS,...",                                                          \
                   .offset = offsetof(TYPE, sampler.logit_bias)),                                  \
        OPTION_ROW("min-tokens", OPTION_COUNT, NULL, "minimum tokens of an answer",                \
                   .offset = offsetof(TYPE, sampler.min_tokens), .maximum = LIMIT_CONTEXT),        \
        OPTION_ROW("repetition-penalty", OPTION_NUMBER, "1",                                       \
                   "above 1: lower tokens that occur in the prompt or the answer; 1: off",         \
                   .offset = offsetof(TYPE, sampler.repetition_penalty), .minimum = 0,             \
                   .maximum = 10)

struct sampler {
    struct sampling sampling;
    uint32_t vocab;
    uint32_t *tokens; /* [token_count] prompt and answer */
    uint32_t token_count, token_capacity, prompt_count;
    float *adjusted, *scratch; /* [vocab], [2 * vocab] */
    uint32_t bias_count, stop_count;
    struct token_bias biases[LIMIT_ROW_BIASES]; /* [bias_count] from --logit-bias, then [stop_count]
                                                 * that forbid stop tokens below min-tokens */
};

/* Has room for token_capacity tokens of prompt and answer. Tokens beyond it can be chosen but are
 * not remembered. Call sampler_close even after a failure. */
enum status sampler_open(struct sampler *sampler, uint32_t vocab, uint32_t token_capacity,
                         struct error *error) MUST_USE;
void sampler_close(struct sampler *sampler);

/* Sets the options. `stops`: the tokens that end an answer. STATUS_INVALID: bad --logit-bias. */
enum status sampler_apply(struct sampler *sampler, const struct sampler_values *values,
                          const uint32_t *stops, uint32_t stop_count, struct error *error) MUST_USE;

/* True if the token is one of those that end an answer. */
bool sampler_ends(const struct sampler *sampler, uint32_t token);

/* Begins a new answer to this prompt. */
void sampler_begin(struct sampler *sampler, const uint32_t *prompt, uint32_t prompt_count);

/* Chooses and remembers the answer's next token among those in `mask` (sample.h; NULL: all). If
 * biases or min-tokens forbid all tokens of the mask, the mask wins. */
uint32_t sampler_choose(struct sampler *sampler, const float *logits /* [vocab] */,
                        const uint64_t *mask);
