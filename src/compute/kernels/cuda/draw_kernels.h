/* SPDX-License-Identifier: Apache-2.0
 * Tokens from rows of logits on a GPU: drawn by a rule, or the likeliest. The twin is sample_draw
 * (compute/model/sample.h), without a mask: the same token for any logits.
 * Verified by emulation; not yet run on a GPU.
 */
#pragma once

#include "compute/kernels/draw_rule.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* to[row] = the token that rules[row] draws from logits[row][n]; rules NULL: the likeliest. At most
 * 2^20 logits, in rows aligned to 16 bytes: `stride` is a multiple of 4. */
void draw_kernels_tokens(void *stream, const float *logits, size_t stride, uint32_t n,
                         const struct draw_rule *rules, uint32_t *to, uint32_t rows);

#ifdef __cplusplus
}
#endif
