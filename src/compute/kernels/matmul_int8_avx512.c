/* SPDX-License-Identifier: Apache-2.0
 * Products of INT8 values and codes of four bits with AVX-512-VNNI.
 */
#include "compute/kernels/ints_avx512.h"

#ifdef KERNEL_EMULATE_DOT
#define RUN matmul_int8_avx512_emulated_run
#else
#define RUN matmul_int8_avx512_run
#endif
#include "compute/kernels/matmul_int8_body.h"
