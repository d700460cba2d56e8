/* SPDX-License-Identifier: Apache-2.0
 * Dense products of attention with AVX2 and FMA.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/lanes_avx2.h"

#define ROWS 6
#define NARROW_ROWS 12
#define VECTORS 2
#define WIDE_ROWS 2
#define WIDE_VECTORS 4
#define ROWS_OF_POINTER 3 /* an address takes one, two or no strides in addition to its base */
#include "compute/kernels/gemm_body.h"

void gemm_avx2_run(const struct gemm *job) {
    gemm(job);
}
