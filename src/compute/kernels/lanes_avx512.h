/* SPDX-License-Identifier: Apache-2.0
 * The lanes of AVX-512: lanes.h says what each is. Private to src/compute/kernels, for files that
 * are compiled for it; empty to others.
 */
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>
#include <stdint.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define LANES 16

typedef __m512 lanes;
typedef uint32_t lanes_bits __attribute__((vector_size(64)));
typedef __mmask16 lanes_mask;

ALWAYS_INLINE lanes_mask lanes_first(uint32_t count) {
    return (lanes_mask)((1u << count) - 1);
}

ALWAYS_INLINE lanes lanes_all(float value) {
    return _mm512_set1_ps(value);
}

ALWAYS_INLINE lanes lanes_load(const float *x) {
    return _mm512_loadu_ps(x);
}

ALWAYS_INLINE lanes lanes_load_some(const float *x, uint32_t count, float fill) {
    return _mm512_mask_loadu_ps(lanes_all(fill), lanes_first(count), x);
}

ALWAYS_INLINE void lanes_store(float *y, lanes v) {
    _mm512_storeu_ps(y, v);
}

ALWAYS_INLINE void lanes_store_some(float *y, lanes v, uint32_t count) {
    _mm512_mask_storeu_ps(y, lanes_first(count), v);
}

ALWAYS_INLINE lanes_bits lanes_load_16(const uint16_t *x) {
    __m256i values = _mm256_loadu_si256((const __m256i *)(const void *)x);
    return (lanes_bits)_mm512_cvtepu16_epi32(values);
}

ALWAYS_INLINE lanes lanes_load_e4m3(const uint8_t *x) {
    __m128i codes = _mm_loadu_si128((const __m128i *)(const void *)x);
    __m256i halves = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
    return _mm512_cvtph_ps(_mm256_and_si256(halves, _mm256_set1_epi16((short)0xBF80)));
}

ALWAYS_INLINE lanes_bits lanes_load_some_16(const uint16_t *x, uint32_t count) {
    return (lanes_bits)_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes_first(count), x));
}

ALWAYS_INLINE void lanes_store_16(uint16_t *y, lanes_bits v) {
    _mm256_storeu_si256((__m256i *)(void *)y, _mm512_cvtepi32_epi16((__m512i)v));
}

ALWAYS_INLINE void lanes_store_some_16(uint16_t *y, lanes_bits v, uint32_t count) {
    _mm256_mask_storeu_epi16(y, lanes_first(count), _mm512_cvtepi32_epi16((__m512i)v));
}

ALWAYS_INLINE lanes lanes_load_f16(const uint16_t *x) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)x));
}

ALWAYS_INLINE lanes lanes_load_i8(const int8_t *x) {
    __m128i values = _mm_loadu_si128((const __m128i *)(const void *)x);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(values));
}

ALWAYS_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    return _mm512_fmadd_ps(a, b, c);
}

ALWAYS_INLINE lanes lanes_larger(lanes a, lanes b) {
    return _mm512_max_ps(a, b);
}

ALWAYS_INLINE lanes lanes_smaller(lanes a, lanes b) {
    return _mm512_min_ps(a, b);
}

ALWAYS_INLINE lanes_mask lanes_not_below(lanes a, lanes b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ);
}

ALWAYS_INLINE lanes_mask lanes_is_nan(lanes v) {
    return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
}

ALWAYS_INLINE lanes lanes_choose(lanes_mask mask, lanes a, lanes b) {
    return _mm512_mask_mov_ps(b, mask, a);
}

ALWAYS_INLINE lanes lanes_keep(lanes_mask mask, lanes v) {
    return _mm512_maskz_mov_ps(mask, v);
}

ALWAYS_INLINE lanes lanes_keep_first(lanes v, uint32_t count) {
    return lanes_keep(lanes_first(count), v);
}

ALWAYS_INLINE lanes lanes_scale(lanes p, lanes n) {
    return _mm512_scalef_ps(p, n); /* one rounding, and none is needed */
}

ALWAYS_INLINE float lanes_sum(const lanes v[1]) {
    __m256 eight = _mm512_castps512_ps256(v[0]) + _mm512_extractf32x8_ps(v[0], 1);
    __m128 four = _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
    __m128 two = four + _mm_movehl_ps(four, four);
    return two[0] + two[1];
}

ALWAYS_INLINE float lanes_most(const lanes v[1]) {
    __m256 eight = _mm256_max_ps(_mm512_extractf32x8_ps(v[0], 1), _mm512_castps512_ps256(v[0]));
    __m128 four = _mm_max_ps(_mm256_extractf128_ps(eight, 1), _mm256_castps256_ps128(eight));
    __m128 two = _mm_max_ps(_mm_movehl_ps(four, four), four);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(two), two));
}

ALWAYS_INLINE void lanes_transpose(lanes v[16]) {
    lanes t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) { /* pairs of rows, element by element */
        t[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16;
         i += 4) { /* fours of rows: v[i + j] has columns j, j + 4, j + 8, j + 12 */
        v[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
        v[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xEE);
        v[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        v[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) { /* quarters of 128 bits: a 4 x 4 transpose of them */
        lanes low_even = _mm512_shuffle_f32x4(v[j], v[4 + j], 0x88);
        lanes low_odd = _mm512_shuffle_f32x4(v[j], v[4 + j], 0xDD);
        lanes high_even = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0x88);
        lanes high_odd = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0xDD);
        v[j] = _mm512_shuffle_f32x4(low_even, high_even, 0x88);
        v[4 + j] = _mm512_shuffle_f32x4(low_odd, high_odd, 0x88);
        v[8 + j] = _mm512_shuffle_f32x4(low_even, high_even, 0xDD);
        v[12 + j] = _mm512_shuffle_f32x4(low_odd, high_odd, 0xDD);
    }
}

#endif /* __AVX512F__ */
