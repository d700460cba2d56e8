/* SPDX-License-Identifier: Apache-2.0
 * The router: chooses a token's experts and their weights. Pure, float32, one token at a time.
 *
 *   s       = sigmoid(z), softmax(z) over all experts, or sqrt(ln(1 + exp(z))) (V4)
 *   choice  = s + correction bias (NOAUX_TC), or s
 *   groups    a group's score is the sum of its two largest choices (NOAUX_TC) or its largest one
 *             (GROUP_LIMITED); the best groups_kept stay, choices in all others become -inf
 *   experts = those of the experts_per_token largest choices
 *   weights = s of these experts, without the bias
 *             divided by (their sum + 1e-20) if normalize_weights; then times routed_scaling,
 *             which is 1 where an architecture does one or the other (shape.c)
 *
 * Source: DeepSeek-V3 inference/model.py (Gate), modeling_deepseek.py of V2. In dropped groups,
 * choices become -inf, not 0, as a 0 would win over negative biased scores.
 */
#pragma once

#include "compute/weights/shape.h"

/* `logits`: z[experts]; `bias`: [experts] or NULL. Writes experts_per_token distinct ids,
 * ascending, and their weights. Ties go to the lowest id. Ids are valid even for NaN logits. */
void router_choose(const struct shape *shape, const float *logits, const float *bias,
                   uint32_t *experts_out, float *weights_out);

/* The same for a layer where the token's id chooses: `hashed`[experts_per_token] has the ids. */
void router_weigh_hashed(const struct shape *shape, const float *logits, const float *hashed,
                         uint32_t *experts_out, float *weights_out);
