/* SPDX-License-Identifier: Apache-2.0
 * What `generate` and `chat` share in choosing tokens: the options for penalties, biases, min-p and
 * the least length, and the tokens so far, which penalties look at.
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

/* Rows for an option table; its values, of the type TYPE, must have a member `sampler`. */
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
    struct token_bias biases[LIMIT_ROW_BIASES]; /* [bias_count] of --logit-bias, then [stop_count]
                                                 * of tokens that would end the answer too early */
};

/* Room for so many tokens of prompt and answer; more are chosen without a memory of them. What is
 * left after a failure is for sampler_close too. */
enum status sampler_open(struct sampler *sampler, uint32_t vocab, uint32_t token_capacity,
                         struct error *error) MUST_USE;
void sampler_close(struct sampler *sampler);

/* Takes the options over; `stops` end an answer. STATUS_INVALID: --logit-bias is wrong. */
enum status sampler_apply(struct sampler *sampler, const struct sampler_values *values,
                          const uint32_t *stops, uint32_t stop_count, struct error *error) MUST_USE;

/* A new answer to this prompt. */
void sampler_begin(struct sampler *sampler, const uint32_t *prompt, uint32_t prompt_count);

/* Chooses and remembers the answer's next token, among those in `mask` (sample.h), or all if
 * NULL. A token of the mask is chosen even if biases or min-tokens forbid all of them. */
uint32_t sampler_choose(struct sampler *sampler, const float *logits /* [vocab] */,
                        const uint64_t *mask);
