/* SPDX-License-Identifier: Apache-2.0
 * The router: which experts a token goes to, and with what weights. Pure, float32, one token at a
 * time.
 *
 *   s      = sigmoid(z), or softmax(z) over all experts
 *   choice = s + correction bias (NOAUX_TC only)
 *   groups: score = the sum of the two largest choices (NOAUX_TC) or the largest (GROUP_LIMITED);
 * the best groups_kept stay, everything in the others becomes -inf experts = the experts_per_token
 * largest choices; weights = the unbiased s of those V3: weights /= sum + 1e-20 if
 * normalize_weights; then always *= routed_scaling V2: either normalized, or scaled, not both
 * Source: DeepSeek-V3 inference/model.py (Gate), modeling_deepseek.py of V2. -inf and not 0 for the
 * dropped groups: with negative biased scores a 0 would let a dropped expert win.
 */
#ifndef COMPUTE_MODEL_ROUTER_H
#define COMPUTE_MODEL_ROUTER_H

#include "compute/weights/shape.h"

/* `logits`: z[experts]; `bias`: [experts] or NULL. Writes experts_per_token distinct ids,
 * ascending, and their weights. Ties go to the lowest id. Any logits, NaN too, give valid ids. */
void router_choose(const struct shape *shape, const float *logits, const float *bias,
                   uint32_t *experts_out, float *weights_out);

#endif
