/* SPDX-License-Identifier: Apache-2.0
 * Matrix products by chance for tests of their kernels, and what must hold of each.
 */
#pragma once

#include "levels.h"

struct problem {
    struct packed_matrix weights;
    void *raw, *data; /* row-major, packed */
    float *scales;
    uint16_t *raw_scales, *group_scales; /* of types with groups: [rows][groups], packed */
    size_t data_bytes, scale_bytes;
    float *x, *x_scales;
    uint16_t *x_blocks; /* form 3: x, too, for what checks the product */
    int8_t *x_int8;     /* form 4: x, too, as numbers */
    uint32_t m;
    size_t x_stride, x_bytes, x_scale_stride, x_scale_bytes, x_block_stride, x_block_bytes;
    bool x_is_bf16;
};

enum weight_kind { WEIGHTS_RANDOM, WEIGHTS_EXTREME, WEIGHTS_TINY, WEIGHTS_KIND_COUNT };

/* m rows times a matrix of n rows and k columns, rounded up to whole groups. `form` of the rows: 0
 * any float, 1 BF16 values, 2 E4M3 values with scales, 3 BF16 values in blocks of channels. Types
 * with groups have PROBLEM_INT8, too: INT8 values with scales. */
#define PROBLEM_FORMS 4
#define PROBLEM_INT8 4
struct problem problem_make(uint64_t *state, enum weight_type type, uint32_t m, uint32_t n,
                            uint32_t k, enum weight_kind kind, enum numbers numbers, int form);
void problem_free(struct problem *p);

/* A weight, with its scale. */
double problem_weight(const struct problem *p, uint32_t row, uint32_t col);

/* All levels agree, and with the exact product within rounding. */
void problem_check(const struct problem *p, const struct kernels *levels, uint32_t count);

/* Batch invariance: a row has the same bits alone, in any window of rows, with any panel split. */
void problem_check_invariance(const struct kernels *level, const struct problem *p,
                              uint64_t *state);
