/* SPDX-License-Identifier: Apache-2.0
 * The lanes of NEON: lanes.h says what each is. Private to src/compute/kernels; empty to other
 * machines.
 */
#pragma once

#ifdef __aarch64__
#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define LANES 4

typedef float32x4_t lanes;
typedef uint32x4_t lanes_bits;
typedef uint32x4_t lanes_mask;

ALWAYS_INLINE lanes lanes_all(float value) {
    return vdupq_n_f32(value);
}

ALWAYS_INLINE lanes lanes_load(const float *x) {
    return vld1q_f32(x);
}

ALWAYS_INLINE lanes lanes_load_some(const float *x, uint32_t count, float fill) {
    float some[4] = {fill, fill, fill, fill};
    memcpy(some, x, count * sizeof *x);
    return vld1q_f32(some);
}

ALWAYS_INLINE void lanes_store(float *y, lanes v) {
    vst1q_f32(y, v);
}

ALWAYS_INLINE void lanes_store_some(float *y, lanes v, uint32_t count) {
    memcpy(y, &v, count * sizeof *y);
}

ALWAYS_INLINE lanes_bits lanes_load_16(const uint16_t *x) {
    return vmovl_u16(vld1_u16(x));
}

ALWAYS_INLINE lanes lanes_load_e4m3(const uint8_t *x) {
    int8x8_t codes = vdup_n_s8(0);
    memcpy(&codes, x, LANES);
    int16x4_t halves = vshl_n_s16(vget_low_s16(vmovl_s8(codes)), 7);
    halves = vand_s16(halves, vdup_n_s16((short)0xBF80));
    return vcvt_f32_f16(vreinterpret_f16_s16(halves));
}

ALWAYS_INLINE lanes_bits lanes_load_some_16(const uint16_t *x, uint32_t count) {
    uint16x4_t values = vdup_n_u16(0);
    memcpy(&values, x, count * sizeof *x);
    return vmovl_u16(values);
}

ALWAYS_INLINE void lanes_store_16(uint16_t *y, lanes_bits v) {
    vst1_u16(y, vmovn_u32(v));
}

ALWAYS_INLINE void lanes_store_some_16(uint16_t *y, lanes_bits v, uint32_t count) {
    uint16x4_t values = vmovn_u32(v);
    memcpy(y, &values, count * sizeof *y);
}

ALWAYS_INLINE lanes lanes_load_f16(const uint16_t *x) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x)));
}

ALWAYS_INLINE lanes lanes_load_i8(const int8_t *x) {
    int8x8_t values = vdup_n_s8(0);
    memcpy(&values, x, LANES);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(values))));
}

ALWAYS_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    return vfmaq_f32(c, a, b);
}

/* The instruction for a maximum takes a NaN, or +0 before -0. */
ALWAYS_INLINE lanes lanes_larger(lanes a, lanes b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

ALWAYS_INLINE lanes lanes_smaller(lanes a, lanes b) {
    return vminq_f32(a, b);
}

ALWAYS_INLINE lanes_mask lanes_not_below(lanes a, lanes b) {
    return vmvnq_u32(vcltq_f32(a, b));
}

ALWAYS_INLINE lanes_mask lanes_is_nan(lanes v) {
    return vmvnq_u32(vceqq_f32(v, v));
}

ALWAYS_INLINE lanes lanes_choose(lanes_mask mask, lanes a, lanes b) {
    return vbslq_f32(mask, a, b);
}

ALWAYS_INLINE lanes lanes_keep(lanes_mask mask, lanes v) {
    return (lanes)(mask & (lanes_bits)v);
}

ALWAYS_INLINE lanes lanes_keep_first(lanes v, uint32_t count) {
    static const uint32_t order[4] = {0, 1, 2, 3};
    return lanes_keep(vcltq_u32(vld1q_u32(order), vdupq_n_u32(count)), v);
}

/* By half of n twice, since 2^128 is no float. */
ALWAYS_INLINE lanes lanes_scale(lanes p, lanes n) {
    int32x4_t power = vcvtq_s32_f32(n), half = vshrq_n_s32(power, 1);
    lanes_bits first = (lanes_bits)half, second = (lanes_bits)power - first;
    return p * (lanes)((first + 127u) << 23) * (lanes)((second + 127u) << 23);
}

ALWAYS_INLINE float lanes_sum(const lanes v[4]) {
    lanes four = (v[0] + v[2]) + (v[1] + v[3]);
    float32x2_t two = vget_low_f32(four) + vget_high_f32(four);
    return two[0] + two[1];
}

ALWAYS_INLINE float lanes_most(const lanes v[4]) {
    lanes four = lanes_larger(lanes_larger(v[3], v[1]), lanes_larger(v[2], v[0]));
    lanes two = lanes_larger(vextq_f32(four, four, 2), four);
    return two[1] > two[0] ? two[1] : two[0];
}

ALWAYS_INLINE void lanes_transpose(lanes v[4]) {
    float64x2_t even[2], odd[2]; /* columns 0 and 2, 1 and 3, of two rows each */
    for (int i = 0; i < 2; i++) {
        even[i] = (float64x2_t)vtrn1q_f32(v[2 * i], v[2 * i + 1]);
        odd[i] = (float64x2_t)vtrn2q_f32(v[2 * i], v[2 * i + 1]);
    }
    v[0] = (lanes)vtrn1q_f64(even[0], even[1]);
    v[1] = (lanes)vtrn1q_f64(odd[0], odd[1]);
    v[2] = (lanes)vtrn2q_f64(even[0], even[1]);
    v[3] = (lanes)vtrn2q_f64(odd[0], odd[1]);
}

#endif /* __aarch64__ */
