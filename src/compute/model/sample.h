/* SPDX-License-Identifier: Apache-2.0
 * Sampling: from a row of logits to a token, in vLLM's order (docs.vllm.ai, "Sampling parameters"):
 *
 *   sample_logprobs  log-softmax of the unmodified logits, before all that follows
 *   sample_adjust    repetition penalty over prompt and answer: a positive logit is divided by it,
 *                    a negative one multiplied; frequency penalty times the token's count in the
 *                    answer, and presence penalty once, both subtracted; logit biases and masks
 *   sample_token     of the tokens that a constraint allows: temperature; min-p drops tokens less
 *                    likely than min_p times the likeliest; top-k of the rest; top-p of the rest;
 *                    one draw from Philox of (seed, choice, output position)
 *
 * A draw's weights are integers (compute/kernels/draw_rule.h), so sums are exact in any order, and
 * a GPU draws the same token. Tokens below 2^-40 of the likeliest one's probability are never
 * drawn, and each other token loses less than that: with 129,280 tokens less than 1.2e-7 of all
 * probability.
 *
 * Ties go to the lower id everywhere. Equal arguments give equal results, on every CPU and in any
 * batch. Only a log probability's last bit may depend on the C library's logarithm. A NaN counts as
 * minus infinity, and infinities as the largest finite numbers. Any logits and ids are safe.
 */
#pragma once

#include "compute/kernels/draw_rule.h"
#include "contract/sampling.h"

/* Inputs of a choice in addition to the logits and the sampling parameters. */
struct sample_past {
    const uint32_t *history; /* [history_count] the sequence's last tokens, in order */
    uint32_t history_count;
    uint32_t prompt_count;           /* leading tokens of history that are of the prompt */
    const struct token_bias *biases; /* [bias_count] */
    uint32_t bias_count;
};

/* True if sample_adjust would change anything. */
bool sample_adjusts(const struct sampling *sampling, const struct sample_past *past);

/* `counts` is scratch, [vocab]. Ids beyond the vocabulary are ignored. */
void sample_adjust(float *logits /* [vocab] */, uint32_t vocab, const struct sampling *sampling,
                   const struct sample_past *past, uint32_t *counts);

/* Returns the chosen token. `output_position`: its index in the answer. `mask`: bit t % 64 of word
 * t / 64 is set if token t is allowed; at least one bit is set; NULL: all are allowed. A mask with
 * few bits costs little. */
uint32_t sample_token(const float *logits, uint32_t vocab, const struct sampling *sampling,
                      uint32_t output_position, const uint64_t *mask,
                      float *scratch /* [2 * vocab] */);

/* The two halves of sample_token: the rule for an answer's token at that position, and the draw. */
struct draw_rule sample_rule(const struct sampling *sampling, uint32_t output_position);
uint32_t sample_draw(const float *logits, uint32_t vocab, const struct draw_rule *rule,
                     const uint64_t *mask, float *scratch /* [2 * vocab] */);

/* True if any token of the mask is above minus infinity. Otherwise biases forbid all of them, and
 * the caller chooses from the logits without biases: the mask wins. */
bool sample_leaves_any(const float *logits, uint32_t vocab, const uint64_t *mask);

/* Writes the log probability of the chosen token to out[0], then those of the `top_count` likeliest
 * tokens, likeliest first. Returns the number written: 1 + the smaller of top_count and vocab. */
uint32_t sample_logprobs(const float *logits, uint32_t vocab, uint32_t chosen, uint32_t top_count,
                         struct token_logprob *out);
