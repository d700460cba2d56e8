/* SPDX-License-Identifier: Apache-2.0
 * Products of quantized rows with FP8 weights, on a GPU: the arithmetic of compute/kernels/matmul.h
 * for E4M3 codes with scales of both sides, but for the sums within a block of 128 channels, which
 * are the tensor cores':
 *
 *   y[m][n]: acc = fma(part, s, acc) over the blocks b of 128 input channels, ascending, from +0
 *     part = sum over the block's channels of x[m][k] w[n][k], in four wgmma of 32 channels
 *     s    = x_scales[b][m] * w_scale[n / 128][b]
 *
 * Blocks of rows and columns, their order and who computes what depend on the weight alone: a row's
 * result never depends on the other rows. Hopper is reported to keep 13 bits of a part's sum behind
 * the largest product's first (docs/gpu.md has the bounds). Verified by emulation; not yet run on a
 * GPU.
 */
#pragma once

#include "compute/kernels/cuda/live_rows.h"
#include "compute/kernels/cuda/row_groups.h"
#include "compute/kernels/cuda/tensor_map.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FP8_GEMM_BLOCK 128 /* channels with one scale; rows of x in a tile */

/* Matrices W[slot][n][k] of codes, as a checkpoint has them. */
struct fp8_gemm_weights {
    struct tensor_map map;
    const float *scales; /* of a slot: [ceil(n / 128)][ceil(k / 128)] */
    size_t scale_slot_stride;
    uint32_t n, k, slots;
};

/* Rows of codes x[m][k], and their scales, block by block: [ceil(k / 128)][scale_stride]. */
struct fp8_gemm_rows {
    struct tensor_map map, scale_map;
    uint32_t k;
    struct live_rows live; /* all, unless it is set; but by groups, which say it themselves */
};

/* Everything here lies in the device's memory. Addresses and pitches are multiples of 16 bytes.
 * False: they are not. `slot_pitch`: bytes from one matrix to the next; scale_slot_stride: floats
 * from one's scales to the next's. */
bool fp8_gemm_make_weights(struct fp8_gemm_weights *weights_out, const void *codes, uint64_t pitch,
                           uint64_t slot_pitch, const float *scales, size_t scale_slot_stride,
                           uint32_t n, uint32_t k, uint32_t slots);
/* Room for `rows` rows; scale_stride >= rows, a multiple of 4. */
bool fp8_gemm_make_rows(struct fp8_gemm_rows *rows_out, const void *codes, uint64_t pitch,
                        const float *scales, uint32_t scale_stride, uint32_t rows, uint32_t k);

/* y[m][n] (y_stride floats a row, even; y a multiple of 8 bytes) = x W[0]^T of the first m rows. */
void fp8_gemm_run(void *stream, const struct fp8_gemm_weights *weights,
                  const struct fp8_gemm_rows *x, float *y, size_t y_stride, uint32_t m);

/* fp8_gemm_run with y rounded to BF16; y is a multiple of 4 bytes. */
void fp8_gemm_run_rounded(void *stream, const struct fp8_gemm_weights *weights,
                          const struct fp8_gemm_rows *x, uint16_t *y, size_t y_stride, uint32_t m);

/* fp8_gemm_run for each of the groups, which are in the device's memory: rows of y as of x. A group
 * without rows is skipped. `rows`: the most rows of all groups together. */
void fp8_gemm_run_groups(void *stream, const struct fp8_gemm_weights *weights,
                         const struct fp8_gemm_rows *x, const struct row_group *groups,
                         uint32_t group_count, uint32_t rows, float *y, size_t y_stride);

#ifdef __cplusplus
}
#endif
