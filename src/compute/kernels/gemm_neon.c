/* SPDX-License-Identifier: Apache-2.0
 * Dense products of attention with NEON.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/lanes_neon.h"

#define ROWS 6
#define NARROW_ROWS 6
#define VECTORS 4
#define WIDE_ROWS 2
#define WIDE_VECTORS 8
#define ROWS_OF_POINTER 1
#include "compute/kernels/gemm_body.h"

void gemm_neon_run(const struct gemm *job) {
    gemm(job);
}
