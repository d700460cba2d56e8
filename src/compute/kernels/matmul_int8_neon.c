/* SPDX-License-Identifier: Apache-2.0
 * Products of INT8 values and codes of four bits with NEON, and, where the compiler may use it,
 * with SDOT.
 */
#include "compute/kernels/ints_neon.h"

#ifdef __ARM_FEATURE_DOTPROD
#define RUN matmul_int8_neondot_run
#else
#define RUN matmul_int8_neon_run
#endif
#include "compute/kernels/matmul_int8_body.h"
