/* SPDX-License-Identifier: Apache-2.0
 * Minimum and maximum, and the number formats of checkpoints and caches in plain C, which is the
 * reference for the kernels. F16 is IEEE 754 binary16, BF16 the upper half of a float. E4M3 is
 * "e4m3fn": bias 7, subnormals m*2^-9, largest 448, 0x7F and 0xFF are NaN, no infinities (OCP 8-bit
 * floating point specification, section 5).
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t min_u32(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static inline uint32_t max_u32(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static inline int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The sum, saturated to INT64_MIN or INT64_MAX. */
static inline int64_t sum_i64(int64_t a, int64_t b) {
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum)) return sum;
    return a < 0 ? INT64_MIN : INT64_MAX;
}

/* Neither may be a NaN. */
static inline double max_double(double a, double b) {
    return a > b ? a : b;
}

static inline uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float float_from_bf16(uint16_t bits) {
    return float_from_bits((uint32_t)bits << 16);
}

#define F32_MAGNITUDE 0x7FFFFFFFu /* all bits except the sign */
#define F32_INFINITY 0x7F800000u  /* bits of +infinity; greater magnitudes are NaNs */

/* The least power of two that is no less than a positive normal number. */
static inline float power_of_two_from(float value) {
    return float_from_bits((float_bits(value) + 0x7FFFFFu) & F32_INFINITY);
}

/* Rounds to nearest, ties to even. A NaN stays a (quiet) NaN. */
static inline uint16_t bf16_from_float(float value) {
    uint32_t bits = float_bits(value);
    if ((bits & F32_MAGNITUDE) > F32_INFINITY) return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

static inline float bf16_rounded(float value) {
    return float_from_bf16(bf16_from_float(value));
}

static inline float float_from_f16(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = (bits >> 10) & 0x1Fu, fraction = bits & 0x3FFu;
    if (exponent == 31) return float_from_bits(sign | F32_INFINITY | fraction << 13);
    float magnitude = exponent ? float_from_bits((exponent + 112) << 23 | fraction << 13)
                               : (float)fraction * 0x1p-24f;
    return float_from_bits(sign | float_bits(magnitude));
}

/* Rounds to nearest, ties to even. Values that round beyond 65504 become infinity. */
static inline uint16_t f16_from_float(float value) {
    uint32_t bits = float_bits(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    bits &= F32_MAGNITUDE;
    if (bits > F32_INFINITY) return (uint16_t)(sign | 0x7E00u);
    if (bits >= 0x477FF000u) /* 65520 */
        return (uint16_t)(sign | 0x7C00u);
    /* Below 2^-14 the grid is 2^-24: adding 0.5 (0x3F000000) rounds to it. */
    if (bits < 0x38800000u)
        return (uint16_t)(sign | (float_bits(float_from_bits(bits) + 0.5f) - 0x3F000000u));
    bits += 0xFFFu + ((bits >> 13) & 1u);
    return (uint16_t)(sign | ((bits >> 13) - (112u << 10)));
}

static inline float float_from_e4m3(uint8_t code) {
    uint32_t sign = (uint32_t)(code & 0x80u) << 24;
    uint32_t exponent = (code >> 3) & 0xFu, fraction = code & 7u;
    if ((code & 0x7F) == 0x7F) return float_from_bits(sign | 0x7FC00000u);
    float magnitude = exponent ? float_from_bits((exponent + 120) << 23 | fraction << 20)
                               : (float)fraction * 0x1p-9f;
    return float_from_bits(sign | float_bits(magnitude));
}

/* Rounds to nearest, ties to even, and saturates at 448. A NaN becomes 0x7F. */
static inline uint8_t e4m3_from_float(float value) {
    uint32_t bits = float_bits(value);
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80u);
    bits &= F32_MAGNITUDE;
    if (bits > F32_INFINITY) return (uint8_t)(sign | 0x7F);
    float magnitude = float_from_bits(bits);
    if (magnitude >= 448.0f) return (uint8_t)(sign | 0x7E);
    /* subnormal grid of 2^-9: adding 1.5 * 2^14 rounds away the lower bits */
    if (magnitude < 0x1p-6f) return (uint8_t)(sign | (float_bits(magnitude + 0x1.8p14f) & 0xFu));
    bits += 0x7FFFFu + ((bits >> 20) & 1u);
    return (uint8_t)(sign | ((bits >> 20) - (120u << 3)));
}
