/* SPDX-License-Identifier: Apache-2.0
 * Dense products of attention with AVX-512.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/lanes_avx512.h"

#define ROWS 12
#define NARROW_ROWS 12
#define VECTORS 2
#define WIDE_ROWS 3
#define WIDE_VECTORS 8
#define ROWS_OF_POINTER 3 /* an address takes one, two or no strides in addition to its base */
#include "compute/kernels/gemm_body.h"

void gemm_avx512_run(const struct gemm *job) {
    gemm(job);
}
