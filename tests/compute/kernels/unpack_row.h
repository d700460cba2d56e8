/* SPDX-License-Identifier: Apache-2.0
 * A row of a packed matrix, read back.
 */
#pragma once

#include "base/check.h"
#include "base/number.h"
#include "compute/kernels/matmul.h"

static inline void unpack_codes(const struct packed_matrix *weights, uint32_t row, float *out) {
    const uint32_t group = weight_type_group(weights->type), groups = weights->cols / group;
    for (uint32_t c = 0; c < weights->cols; c++) {
        size_t word = ((size_t)(row / MATMUL_PANEL) * weights->cols + c) / 8 * MATMUL_PANEL;
        uint32_t codes = ((const uint32_t *)weights->data)[word + row % MATMUL_PANEL];
        size_t scale = ((size_t)(row / MATMUL_PANEL) * groups + c / group) * MATMUL_PANEL;
        out[c] = weight_type_value(weights->type, codes >> packed_code_shift(c) & 15) *
                 float_from_bf16(weights->group_scales[scale + row % MATMUL_PANEL]);
    }
}

/* Writes row `row` of W as floats, times its scale: out[cols]. Exact but for FP8, which is rounded
 * once. */
static inline void unpack_row(const struct packed_matrix *weights, uint32_t row, float *out) {
    check(row < weights->rows);
    if (weight_type_group(weights->type)) {
        unpack_codes(weights, row, out);
        return;
    }
    uint32_t panel = row / MATMUL_PANEL, blocks = (uint32_t)divide_up(weights->cols, QUANT_GROUP);
    size_t at = (size_t)panel * MATMUL_PANEL * weights->cols + row % MATMUL_PANEL;
    for (uint32_t c = 0; c < weights->cols; c++, at += MATMUL_PANEL) {
        switch (weights->type) {
        case WEIGHT_FP8:
            out[c] = float_from_e4m3(((const uint8_t *)weights->data)[at]) *
                     weights->scales[(size_t)(row / QUANT_GROUP) * blocks + c / QUANT_GROUP];
            break;
        case WEIGHT_BF16:
            out[c] = float_from_bf16(((const uint16_t *)weights->data)[at]);
            break;
        default:
            out[c] = ((const float *)weights->data)[at];
            break;
        }
    }
}
