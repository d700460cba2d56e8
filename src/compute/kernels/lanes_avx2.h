/* SPDX-License-Identifier: Apache-2.0
 * The lanes of AVX2, FMA and F16C: lanes.h says what each is. Masked stores of AVX2 take many
 * cycles on some processors: they are for tails alone. Private to src/compute/kernels, for files
 * that are compiled for it; empty to others.
 */
#pragma once

#ifdef __AVX2__
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define LANES 8

typedef __m256 lanes;
typedef uint32_t lanes_bits __attribute__((vector_size(32)));
typedef __m256 lanes_mask;

ALWAYS_INLINE __m256i lanes_first(uint32_t count) {
    static const int32_t edge[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    return _mm256_loadu_si256((const __m256i *)(const void *)(edge + 8 - count));
}

ALWAYS_INLINE lanes lanes_all(float value) {
    return _mm256_set1_ps(value);
}

ALWAYS_INLINE lanes lanes_load(const float *x) {
    return _mm256_loadu_ps(x);
}

ALWAYS_INLINE lanes lanes_load_some(const float *x, uint32_t count, float fill) {
    __m256i first = lanes_first(count);
    return _mm256_blendv_ps(lanes_all(fill), _mm256_maskload_ps(x, first), (lanes)first);
}

ALWAYS_INLINE void lanes_store(float *y, lanes v) {
    _mm256_storeu_ps(y, v);
}

ALWAYS_INLINE void lanes_store_some(float *y, lanes v, uint32_t count) {
    _mm256_maskstore_ps(y, lanes_first(count), v);
}

ALWAYS_INLINE lanes_bits lanes_load_16(const uint16_t *x) {
    __m128i values = _mm_loadu_si128((const __m128i *)(const void *)x);
    return (lanes_bits)_mm256_cvtepu16_epi32(values);
}

ALWAYS_INLINE lanes lanes_load_e4m3(const uint8_t *x) {
    __m128i codes = _mm_loadl_epi64((const __m128i *)(const void *)x);
    __m128i halves = _mm_slli_epi16(_mm_cvtepi8_epi16(codes), 7);
    return _mm256_cvtph_ps(_mm_and_si128(halves, _mm_set1_epi16((short)0xBF80)));
}

ALWAYS_INLINE lanes_bits lanes_load_some_16(const uint16_t *x, uint32_t count) {
    __m128i values = _mm_setzero_si128();
    memcpy(&values, x, count * sizeof *x);
    return (lanes_bits)_mm256_cvtepu16_epi32(values);
}

ALWAYS_INLINE __m128i lower_halves(lanes_bits v) {
    __m256i all = (__m256i)v;
    return _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}

ALWAYS_INLINE void lanes_store_16(uint16_t *y, lanes_bits v) {
    _mm_storeu_si128((__m128i *)(void *)y, lower_halves(v));
}

ALWAYS_INLINE void lanes_store_some_16(uint16_t *y, lanes_bits v, uint32_t count) {
    __m128i values = lower_halves(v);
    memcpy(y, &values, count * sizeof *y);
}

ALWAYS_INLINE lanes lanes_load_f16(const uint16_t *x) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x));
}

ALWAYS_INLINE lanes lanes_load_i8(const int8_t *x) {
    __m128i values = _mm_loadl_epi64((const __m128i *)(const void *)x);
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(values));
}

ALWAYS_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    return _mm256_fmadd_ps(a, b, c);
}

ALWAYS_INLINE lanes lanes_larger(lanes a, lanes b) {
    return _mm256_max_ps(a, b);
}

ALWAYS_INLINE lanes lanes_smaller(lanes a, lanes b) {
    return _mm256_min_ps(a, b);
}

ALWAYS_INLINE lanes_mask lanes_not_below(lanes a, lanes b) {
    return _mm256_cmp_ps(a, b, _CMP_NLT_UQ);
}

ALWAYS_INLINE lanes_mask lanes_is_nan(lanes v) {
    return _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
}

ALWAYS_INLINE lanes lanes_choose(lanes_mask mask, lanes a, lanes b) {
    return _mm256_blendv_ps(b, a, mask);
}

ALWAYS_INLINE lanes lanes_keep(lanes_mask mask, lanes v) {
    return _mm256_and_ps(mask, v);
}

ALWAYS_INLINE lanes lanes_keep_first(lanes v, uint32_t count) {
    return lanes_keep((lanes)lanes_first(count), v);
}

/* By half of n twice, since 2^128 is no float. */
ALWAYS_INLINE lanes lanes_scale(lanes p, lanes n) {
    __m256i power = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(power, 1);
    lanes_bits first = (lanes_bits)half, second = (lanes_bits)power - first;
    return p * (lanes)((first + 127u) << 23) * (lanes)((second + 127u) << 23);
}

ALWAYS_INLINE float lanes_sum(const lanes v[2]) {
    lanes eight = v[0] + v[1];
    __m128 four = _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
    __m128 two = four + _mm_movehl_ps(four, four);
    return two[0] + two[1];
}

ALWAYS_INLINE float lanes_most(const lanes v[2]) {
    lanes eight = _mm256_max_ps(v[1], v[0]);
    __m128 four = _mm_max_ps(_mm256_extractf128_ps(eight, 1), _mm256_castps256_ps128(eight));
    __m128 two = _mm_max_ps(_mm_movehl_ps(four, four), four);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(two), two));
}

ALWAYS_INLINE void lanes_transpose(lanes v[8]) {
    lanes t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) { /* pairs of rows, element by element */
        t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) { /* fours of rows: v[i + j] has columns j and j + 4 */
        v[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        v[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
        v[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        v[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        lanes low = _mm256_permute2f128_ps(v[j], v[4 + j], 0x20);
        v[4 + j] = _mm256_permute2f128_ps(v[j], v[4 + j], 0x31);
        v[j] = low;
    }
}

#endif /* __AVX2__ */
