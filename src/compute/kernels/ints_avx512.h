/* SPDX-License-Identifier: Apache-2.0
 * Integer lanes for matmul_int8_body.h with AVX-512-VNNI: VPDPBUSD sums four products in 32 bits.
 * KERNEL_EMULATE_DOT gives the same in the compiler's vectors, for tests on any CPU.
 */
#pragma once

#if defined(__AVX512VNNI__) || defined(KERNEL_EMULATE_DOT)
#include <stdint.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#define INTS 16
#define INT_CODES_UNSIGNED 1
#define DOTS_CHANNELS(type) 32

#ifdef KERNEL_EMULATE_DOT
#include <math.h>

typedef int32_t ints __attribute__((vector_size(64)));
typedef ints dots;
typedef float floats __attribute__((vector_size(64)));

ALWAYS_INLINE ints ints_load(const void *from) {
    ints v;
    memcpy(&v, from, sizeof v);
    return v;
}

ALWAYS_INLINE void ints_store(void *to, ints v) {
    memcpy(to, &v, sizeof v);
}

ALWAYS_INLINE ints ints_all(const void *from) {
    int32_t value;
    memcpy(&value, from, sizeof value);
    return (ints){0} + value;
}

ALWAYS_INLINE ints ints_table(const void *from) {
    ints v;
    for (int i = 0; i < 4; i++)
        memcpy((char *)&v + 16 * i, from, 16);
    return v;
}

ALWAYS_INLINE ints ints_low(ints words) {
    return words & 0x0F0F0F0F;
}

ALWAYS_INLINE ints ints_high(ints words) {
    return ints_low(words >> 4);
}

ALWAYS_INLINE ints ints_look_up(ints table, ints codes) {
    int8_t bytes[64], values[64];
    memcpy(bytes, &codes, sizeof bytes);
    memcpy(values, &table, sizeof values);
    for (int i = 0; i < 64; i++)
        bytes[i] = values[i / 16 * 16 + bytes[i]];
    return ints_load(bytes);
}

ALWAYS_INLINE dots dots_zero(void) {
    return (dots){0};
}

ALWAYS_INLINE ints dots_end(ints sum, dots part) {
    return sum + part;
}

ALWAYS_INLINE dots dots_add(dots sum, ints codes, ints x) {
    uint8_t of_codes[64];
    int8_t of_x[64];
    memcpy(of_codes, &codes, sizeof of_codes);
    memcpy(of_x, &x, sizeof of_x);
    for (int i = 0; i < 64; i++)
        sum[i / 4] += of_codes[i] * of_x[i];
    return sum;
}

ALWAYS_INLINE floats floats_all(float value) {
    return (floats){0} + value;
}

ALWAYS_INLINE floats floats_from_ints(ints v) {
    return __builtin_convertvector(v, floats);
}

ALWAYS_INLINE floats floats_from_bf16(const uint16_t *from) {
    ints bits = {0};
    for (int i = 0; i < INTS; i++)
        bits[i] = (int32_t)((uint32_t)from[i] << 16);
    return (floats)bits;
}

ALWAYS_INLINE floats floats_load(const float *from) {
    floats v;
    memcpy(&v, from, sizeof v);
    return v;
}

ALWAYS_INLINE void floats_store(float *to, floats v) {
    memcpy(to, &v, sizeof v);
}

ALWAYS_INLINE floats floats_fma(floats a, floats b, floats c) {
    for (int i = 0; i < INTS; i++)
        c[i] = fmaf(a[i], b[i], c[i]);
    return c;
}
#else
#include <immintrin.h>

typedef __m512i ints;
typedef __m512i dots;
typedef __m512 floats;

ALWAYS_INLINE ints ints_load(const void *from) {
    return _mm512_loadu_si512(from);
}

ALWAYS_INLINE void ints_store(void *to, ints v) {
    _mm512_storeu_si512(to, v);
}

ALWAYS_INLINE ints ints_all(const void *from) {
    int32_t value;
    memcpy(&value, from, sizeof value);
    return _mm512_set1_epi32(value);
}

ALWAYS_INLINE ints ints_table(const void *from) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(from));
}

ALWAYS_INLINE ints ints_low(ints words) {
    return _mm512_and_si512(words, _mm512_set1_epi8(15));
}

ALWAYS_INLINE ints ints_high(ints words) {
    return ints_low(_mm512_srli_epi32(words, 4));
}

ALWAYS_INLINE ints ints_look_up(ints table, ints codes) {
    return _mm512_shuffle_epi8(table, codes);
}

ALWAYS_INLINE dots dots_zero(void) {
    return _mm512_setzero_si512();
}

ALWAYS_INLINE ints dots_end(ints sum, dots part) {
    return _mm512_add_epi32(sum, part);
}

ALWAYS_INLINE dots dots_add(dots sum, ints codes, ints x) {
    return _mm512_dpbusd_epi32(sum, codes, x);
}

ALWAYS_INLINE floats floats_all(float value) {
    return _mm512_set1_ps(value);
}

ALWAYS_INLINE floats floats_from_ints(ints v) {
    return _mm512_cvtepi32_ps(v);
}

ALWAYS_INLINE floats floats_from_bf16(const uint16_t *from) {
    __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)from);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

ALWAYS_INLINE floats floats_load(const float *from) {
    return _mm512_loadu_ps(from);
}

ALWAYS_INLINE void floats_store(float *to, floats v) {
    _mm512_storeu_ps(to, v);
}

ALWAYS_INLINE floats floats_fma(floats a, floats b, floats c) {
    return _mm512_fmadd_ps(a, b, c);
}
#endif

#endif
