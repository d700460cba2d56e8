/* SPDX-License-Identifier: Apache-2.0
 * A row of a packed matrix, read back.
 */
#pragma once

#include "base/check.h"
#include "base/number.h"
#include "compute/kernels/matmul.h"

/* Writes row `row` of W as floats, times its scale: out[cols]. Exact for BF16 and F32, one rounding
 * for FP8. */
static inline void unpack_row(const struct packed_matrix *weights, uint32_t row, float *out) {
    check(row < weights->rows);
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
