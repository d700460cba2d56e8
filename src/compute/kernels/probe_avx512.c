/* SPDX-License-Identifier: Apache-2.0
 * The multiply probe with AVX-512; built a second time with PROBE_BF16_DOT for VDPBF16PS.
 */
#include "compute/kernels/tables.h"

#include <immintrin.h>

#define CHAINS 16

#ifdef PROBE_BF16_DOT
double probe_avx512bf16_multiply(uint64_t rounds) {
    __m512i x = _mm512_set1_epi32(0x3F003F00);
#define STEP(sum) _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)x)
#define OPERATIONS 64
#else
double probe_avx512_multiply(uint64_t rounds) {
    __m512 x = _mm512_set1_ps(0.5f);
#define STEP(sum) _mm512_fmadd_ps(sum, x, x)
#define OPERATIONS 32
#endif
    __m512 sum[CHAINS];
#pragma GCC unroll 16
    for (int c = 0; c < CHAINS; c++)
        sum[c] = _mm512_setzero_ps();
    for (uint64_t i = 0; i < rounds; i++)
#pragma GCC unroll 16
        for (int c = 0; c < CHAINS; c++) {
            sum[c] = STEP(sum[c]);
            __asm__ volatile("" : "+v"(sum[c])); /* keeps the chain as it is written */
        }
    return (double)rounds * CHAINS * OPERATIONS;
}
