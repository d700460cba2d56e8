/* SPDX-License-Identifier: Apache-2.0
 * Choices of experts on a GPU: each token's with their weights, and the rows of the pairs. From
 * equal inputs, without NaNs, they give the bits of their twins (compute/model/router.h). Verified
 * by emulation; not yet run on a GPU.
 */
#pragma once

#include "compute/kernels/cuda/live_rows.h"
#include "compute/kernels/cuda/row_groups.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A router's rule, as compute/weights/shape.h has it. `groups_kept` 0: all. At most 1,024 experts,
 * of which `per_token` are chosen; the groups divide them. */
struct choice_rule {
    uint32_t experts, per_token, groups, groups_kept;
    bool softmax;     /* else sigmoid */
    bool two_largest; /* a group's score is their sum, else the largest */
    bool normalizes;
    float scaling;
};

/* experts[row][per_token], ascending, and weights likewise, of logits[row][stride]; bias NULL:
 * none; live NULL: all rows are there. */
void choice_kernels_experts(void *stream, const struct choice_rule *rule, const float *logits,
                            size_t stride, const float *bias, uint32_t *experts, float *weights,
                            uint32_t rows, const struct live_rows *live);

/* (token, expert) pairs get rows: by slot, ascending, then by token. `slots` are experts' own
 * numbers. */
struct choice_pairs {
    const uint32_t *slots;    /* [tokens][per_token] */
    uint32_t *pair_row;       /* [tokens][per_token] */
    uint32_t *row_token;      /* [tokens * per_token] */
    struct row_group *groups; /* of each slot */
    uint32_t *slot_tokens;    /* of each slot: counted up; no other launch does so meanwhile */
    uint32_t tokens, per_token;
    struct live_rows live; /* tokens */
};
void choice_kernels_sort(void *stream, const struct choice_pairs *pairs, uint32_t slots);

#ifdef __cplusplus
}
#endif
