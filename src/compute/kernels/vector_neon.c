/* SPDX-License-Identifier: Apache-2.0
 * Vector kernels with NEON, and the tables of both levels of arm64.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/lanes_neon.h"

#include "compute/kernels/vector_body.h"

#define store_weights(weights, v) store_bf16(weights, v, LANES)
#include "compute/kernels/vector_softmax.h"

static float softmax_bf16(uint16_t *weights, const float *scores, uint32_t count, float a,
                          float *max, float *sum) {
    return softmax(weights, scores, count, a, max, sum);
}

const struct kernels kernels_table_neon = {
    .level = KERNEL_LEVEL_NEON,
    .name = "neon",
    .numerics = "fma1",
    .matmul = matmul_neon_run,
    .gemm = gemm_neon_run,
    VECTOR_KERNELS,
};

const struct kernels kernels_table_neonbf16 = {
    .level = KERNEL_LEVEL_NEONBF16,
    .name = "neonbf16",
    .numerics = "bfdot2",
    .matmul = matmul_neonbf16_run,
    .gemm_bf16 = gemm_neonbf16_run,
    .few_columns = BF16_FOURS,
    .core_blocks = 1,
    .bf16_panel = vector_c_bf16_panel_c,
    .bf16_pair_rows = vector_c_bf16_pair_rows_c,
    .softmax_bf16 = softmax_bf16,
    .gemm = gemm_neon_run,
    VECTOR_KERNELS,
};
