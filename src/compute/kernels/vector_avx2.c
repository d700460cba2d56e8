/* SPDX-License-Identifier: Apache-2.0
 * Vector kernels with AVX2, FMA and F16C.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/lanes_avx2.h"

#include "compute/kernels/vector_body.h"

const struct kernels kernels_table_avx2 = {
    .level = KERNEL_LEVEL_AVX2,
    .name = "avx2",
    .numerics = "fma1",
    .matmul = matmul_avx2_run,
    .gemm = gemm_avx2_run,
    VECTOR_KERNELS,
};
