/* SPDX-License-Identifier: Apache-2.0
 * Steps of vector kernels with AVX-512. Private to src/compute/kernels, for files that are compiled
 * for it; empty to others.
 */
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#include "compute/kernels/constants.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The elements [i, i + 16) that exist. */
ALWAYS_INLINE __mmask16 mask_from(uint32_t i, uint32_t n) {
    return n - i >= 16 ? 0xFFFF : (__mmask16)((1u << (n - i)) - 1);
}

ALWAYS_INLINE __m128 upper_half(__m256 v) {
    return _mm256_extractf128_ps(v, 1);
}

ALWAYS_INLINE float lanes_sum(__m512 lanes) {
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), upper_half(eight));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

ALWAYS_INLINE float lanes_maximum(__m512 lanes) {
    __m256 eight = _mm256_max_ps(_mm512_extractf32x8_ps(lanes, 1), _mm512_castps512_ps256(lanes));
    __m128 four = _mm_max_ps(upper_half(eight), _mm256_castps256_ps128(eight));
    __m128 two = _mm_max_ps(_mm_movehl_ps(four, four), four);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(two), two));
}

/* VSCALEFPS is p * 2^n with one rounding, and none is needed: the result is normal. */
ALWAYS_INLINE __m512 exponential(__m512 x) {
    __m512 rounder = _mm512_set1_ps(EXP_ROUNDER);
    __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(EXP_LOG2E), rounder), rounder);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-EXP_LN2_HIGH), x);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(-EXP_LN2_LOW), r);
    __m512 p = _mm512_set1_ps(EXP_C7);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C6));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C5));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(EXP_C3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_scalef_ps(p, n);
    __mmask16 high = _mm512_cmp_ps_mask(x, _mm512_set1_ps(EXP_HIGHEST), _CMP_GT_OQ);
    __mmask16 not_low = _mm512_cmp_ps_mask(x, _mm512_set1_ps(EXP_LOWEST), _CMP_NLT_UQ);
    p = _mm512_mask_mov_ps(p, high, _mm512_set1_ps(INFINITY));
    return _mm512_maskz_mov_ps(not_low, p);
}

/* The BF16 bits of each float, in 32 bits: base/number.h. */
ALWAYS_INLINE __m512i bf16_bits(__m512 v) {
    __m512i bits = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
    __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_srli_epi32(rounded, 16);
}

#endif /* __AVX512F__ */
