/* SPDX-License-Identifier: Apache-2.0
 * From a row of logits to a token, in vLLM's order (docs.vllm.ai, "Sampling parameters"):
 *
 *   sample_logprobs  log-softmax of the logits as the model gave them, before all that follows
 *   sample_adjust    repetition penalty over prompt and answer: a positive logit is divided by it,
 *                    a negative one multiplied; frequency penalty times the token's count in the
 *                    answer, and presence penalty once, both subtracted; logit biases and masks
 *   sample_token     of what a constraint lets through: temperature; min-p: tokens less likely
 *                    than min_p times the likeliest go; top-k of what is left; top-p over what is
 *                    left then; one draw from Philox of (seed, choice, output position)
 *
 * A draw's weights are integers (compute/kernels/draw_rule.h), so its sums are exact, in any order,
 * and a GPU draws the same token. It costs the tokens below 2^-40 of the likeliest one's
 * probability, which are never drawn, and of each other less than that: of 129,280 tokens less than
 * 1.2e-7 of all probability.
 *
 * Ties go to the lower id everywhere. Equal arguments give equal results, on every CPU and in any
 * batch; only a log probability's last bit may depend on the C library's logarithm. A NaN counts as
 * minus infinity, infinities as the largest finite numbers: no logits and no ids can do harm.
 */
#pragma once

#include "compute/kernels/draw_rule.h"
#include "contract/sampling.h"

/* The inputs of a choice in addition to the logits and the sampling. */
struct sample_past {
    const uint32_t *history; /* [history_count] the sequence's last tokens, in order */
    uint32_t history_count;
    uint32_t prompt_count;           /* tokens at the start of history that came with the prompt */
    const struct token_bias *biases; /* [bias_count] */
    uint32_t bias_count;
};

/* True if sample_adjust would change anything. */
bool sample_adjusts(const struct sampling *sampling, const struct sample_past *past);

/* `counts` is scratch, [vocab]. Ids beyond the vocabulary are passed over. */
void sample_adjust(float *logits /* [vocab] */, uint32_t vocab, const struct sampling *sampling,
                   const struct sample_past *past, uint32_t *counts);

/* The token chosen; `output_position` counts the answer's tokens. `mask`: bit t % 64 of word t / 64
 * for each token that may be chosen, at least one; NULL: all may. A narrow mask costs little. */
uint32_t sample_token(const float *logits, uint32_t vocab, const struct sampling *sampling,
                      uint32_t output_position, const uint64_t *mask,
                      float *scratch /* [2 * vocab] */);

/* The rule that draws an answer's token at that position, and its choice from logits: sample_token is
 * the two together. */
struct draw_rule sample_rule(const struct sampling *sampling, uint32_t output_position);
uint32_t sample_draw(const float *logits, uint32_t vocab, const struct draw_rule *rule,
                     const uint64_t *mask, float *scratch /* [2 * vocab] */);

/* Whether a token of the mask is above minus infinity. If none is, biases have taken all of them,
 * and one is chosen from the logits without biases: the mask wins. */
bool sample_leaves_any(const float *logits, uint32_t vocab, const uint64_t *mask);

/* Writes the log probability of the chosen token to out[0], those of the `top_count` likeliest, the
 * likeliest first, behind it. Returns how many: 1 + the smaller of top_count and vocab. */
uint32_t sample_logprobs(const float *logits, uint32_t vocab, uint32_t chosen, uint32_t top_count,
                         struct token_logprob *out);
