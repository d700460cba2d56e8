/* SPDX-License-Identifier: Apache-2.0
 * Vector kernels with NEON: vector_c.c, 4 elements at a time; reductions keep their 16 lanes in
 * four registers. What lies behind a buffer is neither read nor written.
 */
#include "compute/kernels/tables.h"

#include <math.h>

#include "compute/kernels/neon.h"
#include "compute/kernels/vector_any.h"

/* All bits of the elements [i, i + 4) that exist. */
ALWAYS_INLINE uint32x4_t mask_from(uint32_t i, uint32_t n) {
    static const uint32_t order[4] = {0, 1, 2, 3};
    return vcltq_u32(vld1q_u32(order), vdupq_n_u32(i >= n ? 0 : n - i));
}

static float lanes_sum(const float32x4_t lanes[4]) {
    float32x4_t four = vaddq_f32(vaddq_f32(lanes[0], lanes[2]), vaddq_f32(lanes[1], lanes[3]));
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

/* a where it is above b, else b: the instructions for a maximum take a NaN, or +0 before -0. */
ALWAYS_INLINE float32x4_t above(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

static float lanes_maximum(const float32x4_t lanes[4]) {
    float32x4_t four = above(above(lanes[3], lanes[1]), above(lanes[2], lanes[0]));
    float lane[4];
    vst1q_f32(lane, four);
    float even = lane[2] > lane[0] ? lane[2] : lane[0], odd = lane[3] > lane[1] ? lane[3] : lane[1];
    return odd > even ? odd : even;
}

ALWAYS_INLINE float32x4_t two_to(int32x4_t power) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(power, vdupq_n_s32(127)), 23));
}

ALWAYS_INLINE float32x4_t exponential(float32x4_t x) {
    float32x4_t rounder = vdupq_n_f32(EXP_ROUNDER);
    float32x4_t n = vsubq_f32(vfmaq_f32(rounder, x, vdupq_n_f32(EXP_LOG2E)), rounder);
    float32x4_t r = vfmaq_f32(x, n, vdupq_n_f32(-EXP_LN2_HIGH));
    r = vfmaq_f32(r, n, vdupq_n_f32(-EXP_LN2_LOW));
    float32x4_t p = vdupq_n_f32(EXP_C7);
    p = vfmaq_f32(vdupq_n_f32(EXP_C6), p, r);
    p = vfmaq_f32(vdupq_n_f32(EXP_C5), p, r);
    p = vfmaq_f32(vdupq_n_f32(EXP_C4), p, r);
    p = vfmaq_f32(vdupq_n_f32(EXP_C3), p, r);
    p = vfmaq_f32(vdupq_n_f32(0.5f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    int32x4_t power = vcvtq_s32_f32(n), half = vshrq_n_s32(power, 1);
    p = vmulq_f32(vmulq_f32(p, two_to(half)), two_to(vsubq_s32(power, half)));
    p = vbslq_f32(vcgtq_f32(x, vdupq_n_f32(EXP_HIGHEST)), vdupq_n_f32(INFINITY), p);
    p = vbslq_f32(vceqq_f32(x, x), p, x); /* a NaN stays */
    return vbslq_f32(vcltq_f32(x, vdupq_n_f32(EXP_LOWEST)), vdupq_n_f32(0), p);
}

static void rmsnorm(float *y, const float *x, const float *weight, uint32_t n, float epsilon) {
    float32x4_t lanes[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
    for (uint32_t i = 0; i < n; i += 16)
#pragma GCC unroll 4
        for (uint32_t v = 0; v < 4; v++) {
            float32x4_t value = neon_load(x, i + 4 * v, n, 0);
            lanes[v] = vfmaq_f32(lanes[v], value, value);
        }
    float32x4_t factor = vdupq_n_f32(1.0f / sqrtf(lanes_sum(lanes) / (float)n + epsilon));
    for (uint32_t i = 0; i < n; i += 4) {
        float32x4_t v = vmulq_f32(neon_load(x, i, n, 0), factor);
        neon_store(y, i, n, vmulq_f32(v, neon_load(weight, i, n, 0)));
    }
}

static void silu_multiply(float *y, const float *gate, const float *up, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 4) {
        float32x4_t z = neon_load(gate, i, n, 0);
        float32x4_t v = vaddq_f32(vdupq_n_f32(1), exponential(vnegq_f32(z)));
        neon_store(y, i, n, vmulq_f32(vdivq_f32(z, v), neon_load(up, i, n, 0)));
    }
}

static void add_scaled(float *y, const float *x, float a, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 4)
        neon_store(y, i, n,
                   vfmaq_f32(neon_load(y, i, n, 0), vdupq_n_f32(a), neon_load(x, i, n, 0)));
}

static void scale(float *y, float a, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 4)
        neon_store(y, i, n, vmulq_f32(neon_load(y, i, n, 0), vdupq_n_f32(a)));
}

static float maximum(const float *x, uint32_t n) {
    float32x4_t lowest = vdupq_n_f32(-INFINITY), lanes[4] = {lowest, lowest, lowest, lowest};
    for (uint32_t i = 0; i < n; i += 16)
#pragma GCC unroll 4
        for (uint32_t v = 0; v < 4; v++)
            lanes[v] = above(neon_load(x, i + 4 * v, n, -INFINITY), lanes[v]);
    return lanes_maximum(lanes);
}

static float exp_sum(float *y, const float *x, float a, float b, uint32_t n) {
    float32x4_t lanes[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
    for (uint32_t i = 0; i < n; i += 16)
#pragma GCC unroll 4
        for (uint32_t v = 0; v < 4; v++) {
            uint32_t at = i + 4 * v;
            float32x4_t value = vfmaq_f32(vdupq_n_f32(-b), neon_load(x, at, n, 0), vdupq_n_f32(a));
            value = exponential(value);
            neon_store(y, at, n, value);
            uint32x4_t there = vandq_u32(vreinterpretq_u32_f32(value), mask_from(at, n));
            lanes[v] = vaddq_f32(lanes[v], vreinterpretq_f32_u32(there));
        }
    return lanes_sum(lanes);
}

/* The BF16 value of each float: base/number.h. */
ALWAYS_INLINE uint32x4_t bf16_value_bits(float32x4_t v) {
    uint32x4_t bits = vreinterpretq_u32_f32(v);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7FFF)), odd);
    uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    rounded = vbslq_u32(vceqq_f32(v, v), rounded, quiet);
    return vandq_u32(rounded, vdupq_n_u32(0xFFFF0000));
}

static float softmax_bf16(uint16_t *weights, const float *scores, uint32_t count, float a,
                          float *max, float *sum) {
    float block_max = maximum(scores, count), factor = 1, old_max = *max;
    if (block_max > old_max) {
        *max = block_max;
        float32x4_t change = vdupq_n_f32((old_max - block_max) * a);
        factor = old_max == -INFINITY ? 0 : vgetq_lane_f32(exponential(change), 0);
    }
    float32x4_t lanes[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
    float32x4_t scales = vdupq_n_f32(a), offset = vdupq_n_f32(-(*max * a));
    for (uint32_t i = 0; i < KV_BLOCK_TOKENS; i += 16) /* core_blocks is 1 */
#pragma GCC unroll 4
        for (uint32_t v = 0; v < 4; v++) {
            float32x4_t value = neon_load(scores, i + 4 * v, count, -INFINITY);
            value = exponential(vfmaq_f32(offset, value, scales)); /* behind count: 0 */
            lanes[v] = vaddq_f32(lanes[v], value);
            vst1_u16(weights + i + 4 * v, vshrn_n_u32(bf16_value_bits(value), 16));
        }
    *sum = *sum * factor + lanes_sum(lanes);
    return factor;
}

static void round_bf16(float *y, const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 4)
        neon_store(y, i, n, vreinterpretq_f32_u32(bf16_value_bits(neon_load(x, i, n, 0))));
}

static void to_bf16(uint16_t *y, const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 4) {
        uint16x4_t packed = vshrn_n_u32(bf16_value_bits(neon_load(x, i, n, 0)), 16);
        if (n - i >= 4)
            vst1_u16(y + i, packed);
        else
            memcpy(y + i, &packed, (n - i) * sizeof *y);
    }
}

/* Four at x, or as many as there are. */
ALWAYS_INLINE float32x4_t load_bf16(const uint16_t *x, uint32_t count) {
    uint16x4_t bits = vdup_n_u16(0);
    if (count >= 4)
        bits = vld1_u16(x);
    else
        memcpy(&bits, x, count * sizeof *x);
    return vreinterpretq_f32_u32(vshll_n_u16(bits, 16));
}

static void from_bf16(float *y, const uint16_t *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 4)
        neon_store(y, i, n, load_bf16(x + i, n - i));
}

static void add_sum_bf16(float *y, const uint16_t *const *x, const float *a, uint32_t count,
                         uint32_t n) {
    for (uint32_t i = 0; i < n; i += 4) {
        float32x4_t sum = vdupq_n_f32(0);
        for (uint32_t k = 0; k < count; k++)
            sum = vfmaq_f32(sum, vdupq_n_f32(a[k]), load_bf16(x[k] + i, n - i));
        sum = vreinterpretq_f32_u32(bf16_value_bits(sum));
        neon_store(y, i, n, vaddq_f32(neon_load(y, i, n, 0), sum));
    }
}

/* The nearest E4M3 value, ties to even, beyond 448 saturated: base/number.h. */
ALWAYS_INLINE float32x4_t round_e4m3(float32x4_t v) {
    uint32x4_t sign = vandq_u32(vreinterpretq_u32_f32(v), vdupq_n_u32(0x80000000));
    float32x4_t magnitude = vminq_f32(vabsq_f32(v), vdupq_n_f32(E4M3_MAX));
    float32x4_t rounder = vdupq_n_f32(E4M3_SUBNORMAL_ROUNDER);
    float32x4_t small = vsubq_f32(vaddq_f32(magnitude, rounder), rounder);
    uint32x4_t bits = vreinterpretq_u32_f32(magnitude);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 20), vdupq_n_u32(1));
    bits = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7FFFF)), odd);
    bits = vandq_u32(bits, vdupq_n_u32(0xFFF00000));
    uint32x4_t is_small = vcltq_f32(magnitude, vdupq_n_f32(E4M3_NORMAL_MIN));
    bits = vorrq_u32(vbslq_u32(is_small, vreinterpretq_u32_f32(small), bits), sign);
    return vbslq_f32(vceqq_f32(v, v), vreinterpretq_f32_u32(bits), v);
}

static float group_scale(const float *x, uint32_t n, bool power_of_two) {
    float32x4_t most = vdupq_n_f32(QUANT_FLOOR);
    for (uint32_t i = 0; i < n; i += 4)
        most = above(vabsq_f32(neon_load(x, i, n, 0)), most);
    float s = vmaxvq_f32(most) / E4M3_MAX; /* no lane is a NaN or a zero */
    if (!power_of_two) return s;
    uint32x2_t bits = vreinterpret_u32_f32(vdup_n_f32(s));
    bits = vand_u32(vadd_u32(bits, vdup_n_u32(0x7FFFFF)), vdup_n_u32(0x7F800000));
    return vget_lane_f32(vreinterpret_f32_u32(bits), 0);
}

static void quantize_e4m3(float *codes, float *scales, const float *x, uint32_t n,
                          bool scale_power_of_two) {
    for (uint32_t first = 0; first < n; first += QUANT_GROUP) {
        uint32_t end = n - first < QUANT_GROUP ? n : first + QUANT_GROUP;
        float s = group_scale(x + first, end - first, scale_power_of_two);
        scales[first / QUANT_GROUP] = s;
        for (uint32_t i = first; i < end; i += 4) {
            float32x4_t v = vdivq_f32(neon_load(x, i, end, 0), vdupq_n_f32(s));
            neon_store(codes, i, end, round_e4m3(v));
        }
    }
}

/* Turns 4 rows of 4 floats into columns. */
ALWAYS_INLINE void transpose_4(float32x4_t v[4]) {
    float64x2_t even[2], odd[2]; /* columns 0 and 2, 1 and 3, of two rows each */
    for (int i = 0; i < 2; i++) {
        even[i] = vreinterpretq_f64_f32(vtrn1q_f32(v[2 * i], v[2 * i + 1]));
        odd[i] = vreinterpretq_f64_f32(vtrn2q_f32(v[2 * i], v[2 * i + 1]));
    }
    v[0] = vreinterpretq_f32_f64(vtrn1q_f64(even[0], even[1]));
    v[1] = vreinterpretq_f32_f64(vtrn1q_f64(odd[0], odd[1]));
    v[2] = vreinterpretq_f32_f64(vtrn2q_f64(even[0], even[1]));
    v[3] = vreinterpretq_f32_f64(vtrn2q_f64(odd[0], odd[1]));
}

static void transpose(float *y, size_t y_stride, const float *x, size_t x_stride, uint32_t rows,
                      uint32_t cols) {
    for (uint32_t r = 0; r < rows; r += 4)
        for (uint32_t c = 0; c < cols; c += 4) {
            float32x4_t v[4];
#pragma GCC unroll 4
            for (uint32_t i = 0; i < 4; i++)
                v[i] =
                    r + i < rows ? neon_load(x + (r + i) * x_stride, c, cols, 0) : vdupq_n_f32(0);
            transpose_4(v);
#pragma GCC unroll 4
            for (uint32_t i = 0; i < 4; i++)
                if (c + i < cols) neon_store(y + (c + i) * y_stride, r, rows, v[i]);
        }
}

const struct kernels kernels_table_neon = {
    .level = KERNEL_LEVEL_NEON,
    .name = "neon",
    .numerics = "fma1",
    .matmul = matmul_neon_run,
    .gemm = gemm_neon_run,
    VECTOR_KERNELS,
};

const struct kernels kernels_table_neonbf16 = {
    .level = KERNEL_LEVEL_NEONBF16,
    .name = "neonbf16",
    .numerics = "bfdot2",
    .matmul = matmul_neonbf16_run,
    .gemm_bf16 = gemm_neonbf16_run,
    .few_columns = BF16_FOURS,
    .core_blocks = 1,
    .bf16_panel = vector_c_bf16_panel_c,
    .bf16_pair_rows = vector_c_bf16_pair_rows_c,
    .softmax_bf16 = softmax_bf16,
    .gemm = gemm_neon_run,
    VECTOR_KERNELS,
};
