/* SPDX-License-Identifier: Apache-2.0
 * Weights as pairs of BF16 channels: what VDPBF16PS and AMX multiply. Private to
 * src/compute/kernels, for files that are compiled for AVX-512 with VBMI; empty to others.
 *
 * FP8 becomes BF16 by table: the seven bits of a code's magnitude choose one of 128 low and one of
 * 128 high bytes (VPERMI2B of AVX-512-VBMI), so 64 codes cost six instructions, five of them
 * shuffles, which run in parallel with the products.
 *
 * KERNEL_EMULATE_BF16 builds the same code without VPERMI2B, for tests on CPUs that lack it.
 */
#pragma once

#ifdef __AVX512F__
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "compute/kernels/bf16_dot.h"
#include "compute/kernels/code_values.h"
#include "compute/kernels/matmul.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The BF16 bits of the codes 0x00 to 0x7F, low bytes and high bytes. Above the subnormal codes the
 * exponent e of E4M3 becomes e + 120, and the fraction's three bits go to the top of BF16's seven.
 * */
#define EIGHT(byte) byte, byte, byte, byte, byte, byte, byte, byte
#define EVEN_LOW 0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70
#define ODD_LOW 0x80, 0x90, 0xA0, 0xB0, 0xC0, 0xD0, 0xE0, 0xF0
#define FOUR_LOW ODD_LOW, EVEN_LOW, ODD_LOW, EVEN_LOW
#define SUBNORMAL_LOW 0x00, 0x00, 0x80, 0xC0, 0x00, 0x20, 0x40, 0x60
#define SUBNORMAL_HIGH 0x00, 0x3B, 0x3B, 0x3B, 0x3C, 0x3C, 0x3C, 0x3C
#define TWO_HIGH(byte) EIGHT(byte), EIGHT(byte)
static const uint8_t code_low[2][64] = {
    {SUBNORMAL_LOW, FOUR_LOW, ODD_LOW, EVEN_LOW, ODD_LOW},
    {EVEN_LOW, FOUR_LOW, ODD_LOW, EVEN_LOW, ODD_LOW},
};
static const uint8_t code_high[2][64] = {
    {SUBNORMAL_HIGH, EIGHT(60), TWO_HIGH(61), TWO_HIGH(62), TWO_HIGH(63)},
    {TWO_HIGH(64), TWO_HIGH(65), TWO_HIGH(66), TWO_HIGH(67)},
};

/* Where each byte of 2 x 32 codes goes before they are looked up: channel k and k + 1 of an output
 * next to each other, four outputs of the low half and four of the high half in each 128 bits,
 * since the unpack instructions that join low and high bytes afterwards work within 128 bits. */
#define TWO_CODES(output) output, output + 32
#define EIGHT_CODES(first)                                                                         \
    TWO_CODES(first), TWO_CODES(first + 1), TWO_CODES(first + 2), TWO_CODES(first + 3)
#define QUARTER(first) EIGHT_CODES(first), EIGHT_CODES(first + 16)
static const uint8_t code_order[64] = {QUARTER(0), QUARTER(4), QUARTER(8), QUARTER(12)};
/* The tables above in registers. */
struct bf16_pairing {
    __m512i order, low[2], high[2], values[2];
};

ALWAYS_INLINE struct bf16_pairing bf16_load_pairing(void) {
    struct bf16_pairing pairing = {.order = _mm512_loadu_si512(code_order),
                                   .values[0] = _mm512_loadu_si512(bf16_beside)};
    pairing.values[1] = _mm512_add_epi16(pairing.values[0], _mm512_set1_epi16(16));
    for (int half = 0; half < 2; half++) {
        pairing.low[half] = _mm512_loadu_si512(code_low[half]);
        pairing.high[half] = _mm512_loadu_si512(code_high[half]);
    }
    return pairing;
}

#ifdef KERNEL_EMULATE_BF16
static __m512i bf16_reorder(__m512i order, __m512i bytes) {
    uint8_t from[64], to[64];
    _mm512_storeu_si512(from, bytes);
    _mm512_storeu_si512(to, order);
    for (int i = 0; i < 64; i++)
        to[i] = from[to[i] & 63];
    return _mm512_loadu_si512(to);
}

static __m512i bf16_lookup(const __m512i table[2], __m512i codes) {
    uint8_t values[128], bytes[64];
    _mm512_storeu_si512(values, table[0]);
    _mm512_storeu_si512(values + 64, table[1]);
    _mm512_storeu_si512(bytes, codes);
    for (int i = 0; i < 64; i++)
        bytes[i] = values[bytes[i] & 0x7F];
    return _mm512_loadu_si512(bytes);
}
#else
ALWAYS_INLINE __m512i bf16_reorder(__m512i order, __m512i bytes) {
    return _mm512_permutexvar_epi8(order, bytes);
}

ALWAYS_INLINE __m512i bf16_lookup(const __m512i table[2], __m512i codes) {
    return _mm512_permutex2var_epi8(table[0], codes, table[1]);
}
#endif

/* The source of a tile's weights. */
enum bf16_source {
    SOURCE_CODES,       /* a packed panel of FP8 */
    SOURCE_VALUES,      /* a packed panel of BF16 */
    SOURCE_PAIRS,       /* what decode wrote */
    SOURCE_NIBBLES,     /* a packed panel of codes of four bits */
    SOURCE_NIBBLE_PAIRS /* what decode made of it */
};

/* The BF16 values of a type's codes of four bits, twice: VPERMW reads five bits of an index, and
 * the fifth belongs to the next code. */
ALWAYS_INLINE __m512i bf16_nibble_values(enum weight_type type) {
    const __m128i *values = (const __m128i *)(const void *)code_values_of(type);
    __m512 floats = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(values)));
    __m512i bits = _mm512_srli_epi32(_mm512_castps_si512(floats), 16);
    return _mm512_broadcast_i64x4(_mm512_cvtepi32_epi16(bits));
}

/* Pairs of the next two channels of 16 outputs. Their words have the even channel's code lowest in
 * the lower half and the odd one's in the upper half. */
ALWAYS_INLINE __m512i bf16_next_nibbles(__m512i *words, __m512i values) {
    __m512i pairs = _mm512_permutexvar_epi16(*words, values);
    *words = _mm512_srli_epi32(*words, 4);
    return pairs;
}

/* Channels k and k + 1 of a panel, k even: for each of the 32 outputs both weights in 32 bits.
 * `single`: there is no channel k + 1, and zeros stand for it. */
ALWAYS_INLINE void bf16_load_pairs(enum bf16_source source, const struct bf16_pairing *pairing,
                                   const char *w, size_t k, bool single, __m512i out[2]) {
    if (source == SOURCE_PAIRS) {
        out[0] = _mm512_loadu_si512(w + k * 64);
        out[1] = _mm512_loadu_si512(w + k * 64 + 64);
    } else if (source == SOURCE_VALUES) {
        __m512i even = _mm512_loadu_si512(w + k * 64);
        __m512i odd = single ? _mm512_setzero_si512() : _mm512_loadu_si512(w + k * 64 + 64);
        out[0] = _mm512_permutex2var_epi16(even, pairing->values[0], odd);
        out[1] = _mm512_permutex2var_epi16(even, pairing->values[1], odd);
    } else {
        __m512i codes = _mm512_maskz_loadu_epi32(single ? 0xFF : 0xFFFF, w + k * 32);
        codes = bf16_reorder(pairing->order, codes);
        __m512i low = bf16_lookup(pairing->low, codes), high = bf16_lookup(pairing->high, codes);
        /* high | (codes & sign) */
        high = _mm512_ternarylogic_epi32(high, codes, _mm512_set1_epi8((char)0x80), 0xF8);
        out[0] = _mm512_unpacklo_epi8(low, high);
        out[1] = _mm512_unpackhi_epi8(low, high);
    }
}

/* A row's `count` channels as BF16: the high halves of floats, which lose nothing. Writes whole
 * groups of 16, filled up with zeros, so an odd last channel is paired with a zero. Products of
 * BF16 need no `lift`. */
static inline void bf16_pack_x(void *out, const float *x, uint32_t count, bool lift) {
    for (uint32_t i = 0; i < count; i += 16) {
        __mmask16 mask = count - i >= 16 ? 0xFFFF : (__mmask16)((1u << (count - i)) - 1);
        __m512i bits = _mm512_castps_si512(_mm512_maskz_loadu_ps(mask, x + i));
        _mm256_storeu_si256((__m256i *)(void *)((char *)out + i * 2),
                            _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
    }
}

static inline void bf16_decode_nibbles(char *out, enum weight_type type, const char *w,
                                       uint32_t count) {
    const __m512i values = bf16_nibble_values(type);
    for (size_t k = 0; k < count; k += 8)
        for (size_t v = 0; v < 2; v++) {
            __m512i words = _mm512_loadu_si512(w + k * 16 + v * 64);
            for (size_t i = 0; i < 8; i += 2)
                _mm512_storeu_si512(out + (k + i) * 64 + v * 64, bf16_next_nibbles(&words, values));
        }
}

/* A panel's `count` channels as bf16_load_pairs makes them: 128 bytes for each pair. */
static inline void bf16_decode(void *out, enum weight_type type, const void *w, uint32_t count) {
    if (weight_type_group(type)) {
        bf16_decode_nibbles(out, type, w, count);
        return;
    }
    struct bf16_pairing pairing = bf16_load_pairing();
    for (size_t k = 0; k < count; k += 2) {
        __m512i pairs[2];
        if (type == WEIGHT_FP8)
            bf16_load_pairs(SOURCE_CODES, &pairing, w, k, k + 1 == count, pairs);
        else
            bf16_load_pairs(SOURCE_VALUES, &pairing, w, k, k + 1 == count, pairs);
        _mm512_storeu_si512((char *)out + k * 64, pairs[0]);
        _mm512_storeu_si512((char *)out + k * 64 + 64, pairs[1]);
    }
}

#endif /* __AVX512F__ */
