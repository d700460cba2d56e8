/* SPDX-License-Identifier: Apache-2.0
 * VDPBF16PS, and what stands for it in tests on CPUs that lack it (KERNEL_EMULATE_BF16). Private to
 * src/compute/kernels, for files that are compiled for AVX-512; empty to others.
 */
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>
#include <stdint.h>

#ifdef KERNEL_EMULATE_BF16
/* sum + a * b for the two BF16 values in each 32 bits. A product of two BF16 values is exact in a
 * float, so an fma rounds as VDPBF16PS does; only denormals, which that flushes, may differ. */
static inline __attribute__((always_inline)) __m512 bf16_dot_pairs(__m512 sum, __m512i a,
                                                                   __m512i b) {
    __m512i high = _mm512_set1_epi32((int)0xFFFF0000);
    sum = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(a, high)),
                          _mm512_castsi512_ps(_mm512_and_si512(b, high)), sum);
    return _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(a, 16)),
                           _mm512_castsi512_ps(_mm512_slli_epi32(b, 16)), sum);
}
#else
static inline __attribute__((always_inline)) __m512 bf16_dot_pairs(__m512 sum, __m512i a,
                                                                   __m512i b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}
#endif

/* Word indices that bring two registers' values 0 to 15 side by side; with 16 more, 16 to 31. */
#define BF16_BESIDE_4(first)                                                                       \
    first, first + 32, first + 1, first + 33, first + 2, first + 34, first + 3, first + 35
static const uint16_t bf16_beside[32] = {BF16_BESIDE_4(0), BF16_BESIDE_4(4), BF16_BESIDE_4(8),
                                         BF16_BESIDE_4(12)};

#endif /* __AVX512F__ */
