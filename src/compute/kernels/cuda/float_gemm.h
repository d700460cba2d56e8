/* SPDX-License-Identifier: Apache-2.0
 * Products in floats, on a GPU: the arithmetic of compute/kernels/matmul.h, bit for bit, for rows
 * without scales. For the router, which decides by its logits; for the mode f32; and for forms that
 * the tensor cores do not take, such as BF16 by FP8.
 *
 *   y[m][n]: acc = fma(part, s, acc) over the blocks b of 128 channels, ascending, from +0
 *     part = fma(x[m][k], w[n][k], part) over the block's channels, ascending, from +0
 *     s    = the weights' scale[n / 128][b], or 1
 *
 * Verified by emulation; not yet run on a GPU.
 */
#pragma once

#include "compute/kernels/cuda/live_rows.h"
#include "compute/kernels/cuda/row_groups.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum float_gemm_type { FLOAT_GEMM_E4M3, FLOAT_GEMM_BF16, FLOAT_GEMM_F32 };

/* Matrices W[slot][n][k], rows `pitch` bytes apart; of E4M3, scales of a slot are [ceil(n /
 * 128)][ceil(k / 128)]. */
struct float_gemm_weights {
    const void *data;
    const float *scales;
    enum float_gemm_type type;
    size_t pitch, slot_bytes, scale_slot_stride;
    uint32_t n, k;
};

/* Rows of F32 or BF16, `pitch` bytes apart. */
struct float_gemm_rows {
    const void *x;
    size_t pitch;
    bool is_bf16;
    struct live_rows live; /* but by groups, which say it themselves */
};

/* The first m rows of x, by the first slot. */
void float_gemm_run(void *stream, const struct float_gemm_weights *weights,
                    const struct float_gemm_rows *x, float *y, size_t y_stride, uint32_t m);

/* Rows by groups, which lie in the device's memory. `rows`: at most so many are in all groups. */
void float_gemm_run_groups(void *stream, const struct float_gemm_weights *weights,
                           const struct float_gemm_rows *x, const struct row_group *groups,
                           uint32_t group_count, uint32_t rows, float *y, size_t y_stride);

#ifdef __cplusplus
}
#endif
