/* SPDX-License-Identifier: Apache-2.0
 * Products of INT8 values and codes of four bits with AVX2, and, compiled with INTS_DOT, with
 * AVX-VNNI.
 */
#include "compute/kernels/ints_avx2.h"

#if defined(KERNEL_EMULATE_DOT)
#define RUN matmul_int8_avxvnni_emulated_run
#elif defined(INTS_DOT)
#define RUN matmul_int8_avxvnni_run
#else
#define RUN matmul_int8_avx2_run
#endif
#include "compute/kernels/matmul_int8_body.h"
