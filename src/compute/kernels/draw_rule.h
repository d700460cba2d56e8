/* SPDX-License-Identifier: Apache-2.0
 * How one token is drawn from a row of logits, in numbers alone: the same for a host
 * (compute/model/sample.h) and for a GPU (cuda/draw_kernels.h), which agree bit for bit because a
 * draw's sums are integers, so their order means nothing.
 *
 * A token's weight is exp((logit - largest) / temperature), at most 1, and it counts as so many
 * whole 2^-40: what is less counts as nothing. The likeliest token counts 2^40, so V tokens lose
 * less than V / 2^40 of all probability together, a tenth of a millionth for 129,280 tokens. A
 * limit of 2^20 tokens keeps sums below 2^60.
 */
#pragma once

#include <stdint.h>

#define DRAW_UNITS 0x1p40f /* of a weight of 1 */
/* exp of less is below 2^-40, by far more than anything is rounded: ln 2^-40 is -27.73. */
#define DRAW_LOWEST (-28.0f)

struct draw_rule {
    double uniform;    /* in [0, 1) */
    float temperature; /* above 0; or 0: the likeliest token, and nothing below matters */
    float top_p;       /* 0..1; 1: off */
    float min_p;       /* 0..1; 0: off */
    uint32_t top_k;    /* 0: off */
};
