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

static inline void unpack_blocks(const struct packed_matrix *weights, uint32_t row, float *out) {
    const struct weight_blocks *blocks = weight_type_blocks(weights->type);
    const uint32_t panel = row / MATMUL_PANEL, r = row % MATMUL_PANEL;
    for (uint32_t c = 0; c < weights->cols; c++) {
        const size_t index =
            (size_t)panel * (weights->cols / blocks->channels) + c / blocks->channels;
        const struct packed_super super = packed_super_at(
            blocks, (const char *)weights->group_scales + index * packed_super_bytes(blocks));
        const size_t at = (size_t)(c % blocks->channels / blocks->group) * MATMUL_PANEL + r;
        const size_t word = ((size_t)panel * weights->cols + c) / 8 * MATMUL_PANEL + r;
        const size_t byte = ((size_t)panel * weights->cols + c) * MATMUL_PANEL + r;
        int32_t code =
            blocks->code_bits == 8
                ? ((const int8_t *)weights->data)[byte]
                : (int32_t)(((const uint32_t *)weights->data)[word] >> packed_code_shift(c) & 15);
        if (weights->type == WEIGHT_Q4_0) code -= 8;
        out[c] = float_from_f16(super.d[r]) * (float)(blocks->scaled ? super.scales[at] : 1) *
                 (float)code;
        if (blocks->has_mins) out[c] -= float_from_f16(super.d_min[r]) * (float)super.mins[at];
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
    if (weight_type_blocks(weights->type)) {
        unpack_blocks(weights, row, out);
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
