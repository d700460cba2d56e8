/* SPDX-License-Identifier: Apache-2.0
 * Products of BF16 rows with BF16 weights, summed in float by the tensor cores, on a GPU; also many
 * of one shape at once, such as a layer's heads:
 *
 *   y[batch][m][n] = sum over k, in wgmma of 16 channels, ascending, of
 *                    x[batch][m][k] w[batch][n][k]
 *
 * Tiles and their order depend on the weight alone: a row's result never depends on the other rows.
 * Verified by emulation; not yet run on a GPU.
 */
#pragma once

#include "compute/kernels/cuda/live_rows.h"
#include "compute/kernels/cuda/row_groups.h"
#include "compute/kernels/cuda/tensor_map.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How weights lie: rows of k for each n, or rows of n for each k. */
enum bf16_gemm_form { BF16_GEMM_ROWS_OF_K, BF16_GEMM_ROWS_OF_N };

struct bf16_gemm_weights {
    struct tensor_map map;
    enum bf16_gemm_form form;
    uint32_t n, k, batch;
};

struct bf16_gemm_rows {
    struct tensor_map map;
    struct live_rows live; /* all, unless it is set; but by groups, which say it themselves */
};

/* Where y goes: floats, or rounded to BF16; the other is NULL. Strides in elements, even; addresses
 * a multiple of two elements. */
struct bf16_gemm_output {
    float *values;
    uint16_t *rounded;
    size_t row_stride, batch_stride;
};

/* Everything lies in the device's memory; addresses and pitches (bytes) are multiples of 16. False:
 * they are not. */
bool bf16_gemm_make_weights(struct bf16_gemm_weights *weights_out, const uint16_t *weights,
                            enum bf16_gemm_form form, uint64_t pitch, uint64_t batch_pitch,
                            uint32_t n, uint32_t k, uint32_t batch);
/* Room for `rows` rows of each of the batch. */
bool bf16_gemm_make_rows(struct bf16_gemm_rows *rows_out, const uint16_t *x, uint64_t pitch,
                         uint64_t batch_pitch, uint32_t rows, uint32_t k, uint32_t batch);

/* The first m rows, of each of the batch. */
void bf16_gemm_run(void *stream, const struct bf16_gemm_weights *weights,
                   const struct bf16_gemm_rows *x, const struct bf16_gemm_output *y, uint32_t m);

/* Rows by groups, which lie in the device's memory: x's batch is 1, and slots are the weights'
 * batch. `rows`: at most so many are in all groups. y[row][n]. */
void bf16_gemm_run_groups(void *stream, const struct bf16_gemm_weights *weights,
                          const struct bf16_gemm_rows *x, const struct row_group *groups,
                          uint32_t group_count, uint32_t rows, const struct bf16_gemm_output *y);

#ifdef __cplusplus
}
#endif
