/* SPDX-License-Identifier: Apache-2.0
 * Integer lanes for matmul_int8_body.h with AVX2: VPMADDUBSW adds pairs of products in 16 bits, of
 * which sums of up to 16 channels of any code, or of 32 of INT4, keep their bits (a pair is at most
 * 2 * 24 * 127, or 2 * 15 * 127). With INTS_DOT VPDPBUSD sums four products in 32 bits: AVX-VNNI,
 * or, with KERNEL_EMULATE_DOT, the same of AVX2's instructions.
 */
#pragma once

#ifdef __AVX2__
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#define INTS 8
#define INT_CODES_UNSIGNED 1
typedef __m256i ints;
typedef __m256i dots;
typedef __m256 floats;

ALWAYS_INLINE ints ints_load(const void *from) {
    return _mm256_loadu_si256(from);
}

ALWAYS_INLINE void ints_store(void *to, ints v) {
    _mm256_storeu_si256(to, v);
}

ALWAYS_INLINE ints ints_all(const void *from) {
    int32_t value;
    memcpy(&value, from, sizeof value);
    return _mm256_set1_epi32(value);
}

ALWAYS_INLINE ints ints_table(const void *from) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(from));
}

ALWAYS_INLINE ints ints_low(ints words) {
    return _mm256_and_si256(words, _mm256_set1_epi8(15));
}

ALWAYS_INLINE ints ints_high(ints words) {
    return ints_low(_mm256_srli_epi32(words, 4));
}

ALWAYS_INLINE ints ints_look_up(ints table, ints codes) {
    return _mm256_shuffle_epi8(table, codes);
}

ALWAYS_INLINE dots dots_zero(void) {
    return _mm256_setzero_si256();
}

#ifdef INTS_DOT
#define DOTS_CHANNELS(type) 32
#ifdef KERNEL_EMULATE_DOT
ALWAYS_INLINE dots dots_add(dots sum, ints codes, ints x) {
    const __m256i low = _mm256_set1_epi16(255);
    __m256i even = _mm256_madd_epi16(_mm256_and_si256(codes, low),
                                     _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
    __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(codes, 8), _mm256_srai_epi16(x, 8));
    return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}
#else
ALWAYS_INLINE dots dots_add(dots sum, ints codes, ints x) {
    return _mm256_dpbusd_avx_epi32(sum, codes, x);
}
#endif

ALWAYS_INLINE ints dots_end(ints sum, dots part) {
    return _mm256_add_epi32(sum, part);
}
#else
#define DOTS_CHANNELS(type) ((type) == WEIGHT_MXFP4 ? 16 : 32)
ALWAYS_INLINE dots dots_add(dots sum, ints codes, ints x) {
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, x));
    __asm__("" : "+x"(sum)); /* a tree of sums would need more registers than there are */
    return sum;
}

ALWAYS_INLINE ints dots_end(ints sum, dots part) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(part, _mm256_set1_epi16(1)));
}
#endif

ALWAYS_INLINE floats floats_all(float value) {
    return _mm256_set1_ps(value);
}

ALWAYS_INLINE floats floats_from_ints(ints v) {
    return _mm256_cvtepi32_ps(v);
}

ALWAYS_INLINE floats floats_from_bf16(const uint16_t *from) {
    __m128i bits = _mm_loadu_si128((const __m128i *)(const void *)from);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

ALWAYS_INLINE floats floats_load(const float *from) {
    return _mm256_loadu_ps(from);
}

ALWAYS_INLINE void floats_store(float *to, floats v) {
    _mm256_storeu_ps(to, v);
}

ALWAYS_INLINE floats floats_fma(floats a, floats b, floats c) {
    return _mm256_fmadd_ps(a, b, c);
}

#endif /* __AVX2__ */
