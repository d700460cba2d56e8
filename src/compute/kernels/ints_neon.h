/* SPDX-License-Identifier: Apache-2.0
 * Integer lanes for matmul_int8_body.h with NEON: SDOT sums four products in 32 bits, where the
 * compiler may use it (FEAT_DotProd); else products of 16 bits are added pair by pair.
 */
#pragma once

#ifdef __aarch64__
#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#define INTS 4
#define INT_CODES_UNSIGNED 0
#define DOTS_CHANNELS(type) 32
typedef int32x4_t ints;
typedef int32x4_t dots;
typedef float32x4_t floats;

ALWAYS_INLINE ints ints_load(const void *from) {
    return vld1q_s32(from);
}

ALWAYS_INLINE void ints_store(void *to, ints v) {
    vst1q_s32(to, v);
}

ALWAYS_INLINE ints ints_all(const void *from) {
    int32_t value;
    memcpy(&value, from, sizeof value);
    return vdupq_n_s32(value);
}

ALWAYS_INLINE ints ints_table(const void *from) {
    return ints_load(from);
}

ALWAYS_INLINE ints ints_low(ints words) {
    return vandq_s32(words, vdupq_n_s32(0x0F0F0F0F));
}

ALWAYS_INLINE ints ints_high(ints words) {
    return ints_low(vshrq_n_s32(words, 4));
}

ALWAYS_INLINE ints ints_look_up(ints table, ints codes) {
    return vreinterpretq_s32_s8(
        vqtbl1q_s8(vreinterpretq_s8_s32(table), vreinterpretq_u8_s32(codes)));
}

ALWAYS_INLINE dots dots_zero(void) {
    return vdupq_n_s32(0);
}

ALWAYS_INLINE dots dots_add(dots sum, ints codes, ints x) {
    const int8x16_t a = vreinterpretq_s8_s32(codes), b = vreinterpretq_s8_s32(x);
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(sum, a, b);
#else
    int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b));
    int16x8_t high = vmull_high_s8(a, b);
    return vpadalq_s16(sum, vpaddq_s16(low, high));
#endif
}

ALWAYS_INLINE ints dots_end(ints sum, dots part) {
    return vaddq_s32(sum, part);
}

ALWAYS_INLINE floats floats_all(float value) {
    return vdupq_n_f32(value);
}

ALWAYS_INLINE floats floats_from_ints(ints v) {
    return vcvtq_f32_s32(v);
}

ALWAYS_INLINE floats floats_from_bf16(const uint16_t *from) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from), 16));
}

ALWAYS_INLINE floats floats_load(const float *from) {
    return vld1q_f32(from);
}

ALWAYS_INLINE void floats_store(float *to, floats v) {
    vst1q_f32(to, v);
}

ALWAYS_INLINE floats floats_fma(floats a, floats b, floats c) {
    return vfmaq_f32(c, a, b);
}

#endif /* __aarch64__ */
