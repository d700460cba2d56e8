/* SPDX-License-Identifier: Apache-2.0
 * Kernels' common steps on vectors of one instruction set. A file includes lanes_avx2.h,
 * lanes_avx512.h or lanes_neon.h first; to others this header is empty. Sums and bits have the
 * compiler's vector operators; what a level's header defines beyond them is:
 *
 *   LANES                  floats of a vector; 16 are one, two or four vectors
 *   lanes, lanes_bits      LANES floats; their bits
 *   lanes_mask             a truth for each
 *   lanes_all              one value everywhere
 *   lanes_load, _store     LANES floats
 *   lanes_load_some        the first `count` <= LANES floats, and `fill` for the others
 *   lanes_store_some       the first `count` <= LANES floats
 *   lanes_load_16, ...     the same of 16 bits each, which are the bits' lower halves; the upper
 *                          ones are 0
 *   lanes_load_e4m3        the values of LANES codes times 2^-8, as half-floats of the same bits
 *   lanes_load_f16, _i8    LANES half-floats or integers, as floats
 *   lanes_fma              a * b + c, rounded once
 *   lanes_larger           a where it is above b, else b
 *   lanes_smaller          a where it is below b, else b; of a NaN either
 *   lanes_not_below        where a is not below b; true of NaNs
 *   lanes_is_nan, lanes_choose, lanes_keep (else 0), lanes_keep_first (`count` of them)
 *   lanes_scale            p * 2^n, where the result is normal and n integral
 *   lanes_sum, lanes_most  of 16 running lanes, as kernels.h has it
 *   lanes_transpose        LANES rows become columns
 *
 * What lies behind `count` elements is neither read nor written.
 */
#pragma once

#ifdef LANES
#include <math.h>

#include "compute/kernels/constants.h"

#define VECTORS_OF_16 (16 / LANES)

/* Runs a statement for elements [i, i + count), count <= width, up to n. */
#define EACH(width, n, statement)                                                                  \
    do {                                                                                           \
        uint32_t i = 0;                                                                            \
        for (; (n)-i >= (width); i += (width)) {                                                   \
            const uint32_t count = (width);                                                        \
            statement;                                                                             \
        }                                                                                          \
        if (i < (n)) {                                                                             \
            const uint32_t count = (n)-i;                                                          \
            statement;                                                                             \
        }                                                                                          \
    } while (0)

/* 16 running lanes of a reduction. */
struct sixteen {
    lanes of[VECTORS_OF_16];
};

ALWAYS_INLINE struct sixteen sixteen_all(float value) {
    struct sixteen all;
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS_OF_16; v++)
        all.of[v] = lanes_all(value);
    return all;
}

/* How many of `count` elements of 16 vector v has. */
ALWAYS_INLINE uint32_t sixteen_part(uint32_t count, uint32_t v) {
    uint32_t before = v * LANES;
    return count <= before ? 0 : count - before < LANES ? count - before : LANES;
}

/* `count` is LANES, which costs nothing where it is a constant, or less. */
ALWAYS_INLINE lanes load(const float *x, uint32_t count, float fill) {
    return count == LANES ? lanes_load(x) : lanes_load_some(x, count, fill);
}

ALWAYS_INLINE void store(float *y, lanes v, uint32_t count) {
    if (count == LANES)
        lanes_store(y, v);
    else
        lanes_store_some(y, v, count);
}

ALWAYS_INLINE lanes load_bf16(const uint16_t *x, uint32_t count) {
    return (lanes)((count == LANES ? lanes_load_16(x) : lanes_load_some_16(x, count)) << 16);
}

/* NaNs are passed over. */
ALWAYS_INLINE void take_larger(struct sixteen *most, const float *x, uint32_t count) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < VECTORS_OF_16; v++) {
        lanes value = load(x + v * LANES, sixteen_part(count, v), -INFINITY);
        most->of[v] = lanes_larger(value, most->of[v]);
    }
}

ALWAYS_INLINE lanes absolute(lanes v) {
    return (lanes)((lanes_bits)v & 0x7FFFFFFFu);
}

/* constants.h has the formula. A NaN stays one. */
ALWAYS_INLINE lanes exponential(lanes x) {
    const lanes rounder = lanes_all(EXP_ROUNDER), highest = lanes_all(EXP_HIGHEST);
    lanes n = lanes_fma(x, lanes_all(EXP_LOG2E), rounder) - rounder;
    lanes r = lanes_fma(n, lanes_all(-EXP_LN2_HIGH), x);
    r = lanes_fma(n, lanes_all(-EXP_LN2_LOW), r);
    lanes p = lanes_all(EXP_C7);
    p = lanes_fma(p, r, lanes_all(EXP_C6));
    p = lanes_fma(p, r, lanes_all(EXP_C5));
    p = lanes_fma(p, r, lanes_all(EXP_C4));
    p = lanes_fma(p, r, lanes_all(EXP_C3));
    p = lanes_fma(p, r, lanes_all(0.5f));
    p = lanes_fma(p, r, lanes_all(1.0f));
    p = lanes_fma(p, r, lanes_all(1.0f));
    p = lanes_choose(lanes_not_below(highest, x), lanes_scale(p, n), lanes_all(INFINITY));
    return lanes_keep(lanes_not_below(x, lanes_all(EXP_LOWEST)), p);
}

/* Each float rounded to BF16, in the upper halves, and a rest in the lower ones: base/number.h. */
ALWAYS_INLINE lanes_bits nearest_bf16(lanes v) {
    lanes_bits bits = (lanes_bits)v;
    lanes_bits rounded = bits + 0x7FFFu + (bits >> 16 & 1u);
    return (lanes_bits)lanes_choose(lanes_is_nan(v), (lanes)(bits | 0x400000u), (lanes)rounded);
}

ALWAYS_INLINE lanes_bits bf16_bits(lanes v) {
    return nearest_bf16(v) >> 16;
}

ALWAYS_INLINE lanes round_to_bf16(lanes v) {
    return (lanes)(nearest_bf16(v) & 0xFFFF0000u);
}

ALWAYS_INLINE void store_bf16(uint16_t *y, lanes v, uint32_t count) {
    lanes_bits bits = bf16_bits(v);
    if (count == LANES)
        lanes_store_16(y, bits);
    else
        lanes_store_some_16(y, bits, count);
}

#endif /* LANES */
