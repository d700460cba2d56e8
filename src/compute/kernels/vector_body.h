/* SPDX-License-Identifier: Apache-2.0
 * Vector kernels, vector_c.c a vector at a time: the same text for AVX2, AVX-512 and NEON. Each
 * vector_*.c includes its lanes first and then this; to others it is empty.
 *
 * A kernel is a step for `count` elements. Whole vectors come with a constant count, so that they
 * take plain loads and stores; the last one may lack elements.
 */
#pragma once

#ifdef LANES
#include <string.h>

#include "base/number.h"
#include "compute/kernels/code_values.h"
#include "compute/kernels/lanes.h"
#include "compute/kernels/vector_any.h"

ALWAYS_INLINE void add_squares(struct sixteen *sums, const float *x, uint32_t count) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < VECTORS_OF_16; v++) {
        lanes value = load(x + v * LANES, sixteen_part(count, v), 0);
        sums->of[v] = lanes_fma(value, value, sums->of[v]);
    }
}

static void rmsnorm(float *y, const float *x, const float *weight, uint32_t n, float epsilon) {
    struct sixteen sums = sixteen_all(0);
    EACH(16, n, add_squares(&sums, x + i, count));
    lanes factor = lanes_all(1.0f / sqrtf(lanes_sum(sums.of) / (float)n + epsilon));
    EACH(LANES, n,
         store(y + i, load(x + i, count, 0) * factor * load(weight + i, count, 0), count));
}

ALWAYS_INLINE lanes silu(lanes z) {
    return z / (lanes_all(1.0f) + exponential(-z));
}

static void silu_multiply(float *y, const float *gate, const float *up, uint32_t n) {
    EACH(LANES, n, store(y + i, silu(load(gate + i, count, 0)) * load(up + i, count, 0), count));
}

static void add_scaled(float *y, const float *x, float a, uint32_t n) {
    lanes factor = lanes_all(a);
    EACH(LANES, n,
         store(y + i, lanes_fma(factor, load(x + i, count, 0), load(y + i, count, 0)), count));
}

static void scale(float *y, float a, uint32_t n) {
    lanes factor = lanes_all(a);
    EACH(LANES, n, store(y + i, load(y + i, count, 0) * factor, count));
}

static float maximum(const float *x, uint32_t n) {
    struct sixteen most = sixteen_all(-INFINITY);
    EACH(16, n, take_larger(&most, x + i, count));
    return lanes_most(most.of);
}

ALWAYS_INLINE void add_exponentials(struct sixteen *sums, float *y, const float *x, lanes factor,
                                    lanes offset, uint32_t count) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < VECTORS_OF_16; v++) {
        uint32_t part = sixteen_part(count, v);
        lanes value = load(x + v * LANES, part, 0);
        value = exponential(lanes_fma(value, factor, offset));
        store(y + v * LANES, value, part);
        sums->of[v] += part == LANES ? value : lanes_keep_first(value, part);
    }
}

static float exp_sum(float *y, const float *x, float a, float b, uint32_t n) {
    struct sixteen sums = sixteen_all(0);
    lanes factor = lanes_all(a), offset = lanes_all(-b);
    EACH(16, n, add_exponentials(&sums, y + i, x + i, factor, offset, count));
    return lanes_sum(sums.of);
}

static void round_bf16(float *y, const float *x, uint32_t n) {
    EACH(LANES, n, store(y + i, round_to_bf16(load(x + i, count, 0)), count));
}

static void to_bf16(uint16_t *y, const float *x, uint32_t n) {
    EACH(LANES, n, store_bf16(y + i, load(x + i, count, 0), count));
}

static void from_bf16(float *y, const uint16_t *x, uint32_t n) {
    EACH(LANES, n, store(y + i, load_bf16(x + i, count), count));
}

ALWAYS_INLINE lanes sum_rows(const uint16_t *const *x, const float *a, uint32_t rows, uint32_t i,
                             uint32_t count) {
    lanes sum = lanes_all(0);
    for (uint32_t k = 0; k < rows; k++)
        sum = lanes_fma(lanes_all(a[k]), load_bf16(x[k] + i, count), sum);
    return round_to_bf16(sum);
}

static void add_sum_bf16(float *y, const uint16_t *const *x, const float *a, uint32_t rows,
                         uint32_t n) {
    EACH(LANES, n, store(y + i, load(y + i, count, 0) + sum_rows(x, a, rows, i, count), count));
}

ALWAYS_INLINE void add_positive(struct sixteen *sums, const float *x, float a, uint32_t count) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < VECTORS_OF_16; v++) {
        lanes value = load(x + v * LANES, sixteen_part(count, v), 0);
        sums->of[v] = lanes_fma(lanes_all(a), lanes_larger(value, lanes_all(0)), sums->of[v]);
    }
}

ALWAYS_INLINE void sum_positive_16(float *y, const float *x, size_t x_stride, const float *a,
                                   uint32_t rows, uint32_t count) {
    struct sixteen sums = sixteen_all(0);
    for (uint32_t k = 0; k < rows; k++)
        add_positive(&sums, x + k * x_stride, a[k], count);
#pragma GCC unroll 4
    for (uint32_t v = 0; v < VECTORS_OF_16; v++)
        store(y + v * LANES, sums.of[v], sixteen_part(count, v));
}

static void sum_positive(float *y, const float *x, size_t x_stride, const float *a, uint32_t rows,
                         uint32_t n) {
    EACH(16, n, sum_positive_16(y + i, x + i, x_stride, a, rows, count));
}

static void from_e4m3(float *y, const uint8_t *codes, float scale, uint32_t n) {
    const float factor = scale * 0x1p8f;
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        lanes_store(y + i, lanes_load_e4m3(codes + i) * lanes_all(factor));
    for (; i < n; i++)
        y[i] = code_values_of_e4m3(codes[i]) * factor;
}

/* The nearest E4M3 value, ties to even, beyond 448 saturated: base/number.h. */
ALWAYS_INLINE lanes round_e4m3(lanes v) {
    const lanes rounder = lanes_all(E4M3_SUBNORMAL_ROUNDER);
    lanes magnitude = lanes_smaller(absolute(v), lanes_all(E4M3_MAX));
    lanes_bits bits = (lanes_bits)magnitude, sign = (lanes_bits)v & 0x80000000u;
    lanes normal = (lanes)((bits + 0x7FFFFu + (bits >> 20 & 1u)) & 0xFFF00000u);
    lanes subnormal = (magnitude + rounder) - rounder;
    lanes_mask is_normal = lanes_not_below(magnitude, lanes_all(E4M3_NORMAL_MIN));
    lanes result = (lanes)((lanes_bits)lanes_choose(is_normal, normal, subnormal) | sign);
    return lanes_choose(lanes_is_nan(v), v, result);
}

ALWAYS_INLINE void take_larger_magnitude(struct sixteen *most, const float *x, uint32_t count) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < VECTORS_OF_16; v++) {
        lanes value = load(x + v * LANES, sixteen_part(count, v), 0);
        most->of[v] = lanes_larger(absolute(value), most->of[v]);
    }
}

static float group_scale(const float *x, uint32_t n, bool power_of_two) {
    struct sixteen most = sixteen_all(QUANT_FLOOR);
    EACH(16, n, take_larger_magnitude(&most, x + i, count));
    float s = lanes_most(most.of) / E4M3_MAX;
    return power_of_two ? power_of_two_from(s) : s;
}

static void quantize_e4m3(float *codes, float *scales, const float *x, uint32_t n,
                          bool scale_power_of_two) {
    for (uint32_t first = 0; first < n; first += QUANT_GROUP, x += QUANT_GROUP) {
        uint32_t in_group = n - first < QUANT_GROUP ? n - first : QUANT_GROUP;
        float s = group_scale(x, in_group, scale_power_of_two);
        lanes divisor = lanes_all(s);
        scales[first / QUANT_GROUP] = s;
        EACH(LANES, in_group,
             store(codes + first + i, round_e4m3(load(x + i, count, 0) / divisor), count));
    }
}

/* max(|x|max, INT8_FLOOR) / 127 of a group, or NaN if a value is no number. */
static float int8_scale(const float *x) {
    struct sixteen most = sixteen_all(INT8_FLOOR), nothing = sixteen_all(0);
    for (uint32_t i = 0; i < INT8_GROUP; i += 16) {
        take_larger_magnitude(&most, x + i, 16);
#pragma GCC unroll 4
        for (uint32_t v = 0; v < VECTORS_OF_16; v++)
            nothing.of[v] += lanes_load(x + i + v * LANES) * lanes_all(0);
    }
    return isnan(lanes_sum(nothing.of)) ? NAN : lanes_most(most.of) / INT8_MAX_CODE;
}

static void quantize_int8(int8_t *codes, float *scales, const float *x, uint32_t n) {
    for (uint32_t first = 0; first < n; first += INT8_GROUP) {
        uint32_t rounded[INT8_GROUP]; /* the integer in the lowest bits */
        const float s = scales[first / INT8_GROUP] = int8_scale(x + first);
        if (isnan(s)) {
            memset(codes + first, 0, INT8_GROUP);
            continue;
        }
        for (uint32_t i = 0; i < INT8_GROUP; i += LANES) {
            lanes value = lanes_load(x + first + i) / lanes_all(s) + lanes_all(INT8_ROUNDER);
            memcpy(rounded + i, &value, sizeof value);
        }
        for (uint32_t i = 0; i < INT8_GROUP; i++)
            codes[first + i] = (int8_t)rounded[i];
    }
}

/* x and y begin at a tile of LANES rows and columns, or what is left of them. */
ALWAYS_INLINE void transpose_tile(float *y, size_t y_stride, const float *x, size_t x_stride,
                                  uint32_t rows, uint32_t cols) {
    lanes v[LANES];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < LANES; r++)
        v[r] = r < rows ? load(x + r * x_stride, cols, 0) : lanes_all(0);
    lanes_transpose(v);
#pragma GCC unroll 16
    for (uint32_t c = 0; c < LANES; c++)
        if (c < cols) store(y + c * y_stride, v[c], rows);
}

static void transpose(float *y, size_t y_stride, const float *x, size_t x_stride, uint32_t rows,
                      uint32_t cols) {
    for (uint32_t c = 0; c < cols; c += LANES, x += LANES, y += LANES * y_stride)
        if (cols - c >= LANES)
            EACH(LANES, rows,
                 transpose_tile(y + i, y_stride, x + i * x_stride, x_stride, count, LANES));
        else
            EACH(LANES, rows,
                 transpose_tile(y + i, y_stride, x + i * x_stride, x_stride, count, cols - c));
}

#endif /* LANES */
