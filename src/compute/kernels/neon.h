/* SPDX-License-Identifier: Apache-2.0
 * Shared by the files for NEON: codes as floats, and the end of a tile of BFDOT.
 * Private to src/compute/kernels; empty to other machines.
 */
#pragma once

#ifdef __aarch64__
#include "compute/kernels/lanes_neon.h"
#include "compute/kernels/matmul_blocked.h"

/* 16 FP8 codes as their values times 2^-8, which half-floats of the same bits are worth. */
ALWAYS_INLINE void neon_load_codes(const void *codes, float32x4_t out[4]) {
    int8x16_t bytes = vld1q_s8(codes);
    int16x8_t bits = vdupq_n_s16((int16_t)0xBF80); /* the sign was copied into bit 14, too */
    float16x8_t low = vreinterpretq_f16_s16(vandq_s16(vshll_n_s8(vget_low_s8(bytes), 7), bits));
    float16x8_t high = vreinterpretq_f16_s16(vandq_s16(vshll_high_n_s8(bytes, 7), bits));
    out[0] = vcvt_f32_f16(vget_low_f16(low));
    out[1] = vcvt_high_f32_f16(low);
    out[2] = vcvt_f32_f16(vget_low_f16(high));
    out[3] = vcvt_high_f32_f16(high);
}

/* The end of a tile: its sums, each times its row's scale, into outputs [first, first + 4 *
 * vectors) of the panel. */
ALWAYS_INLINE void neon_end_tile(const struct matmul_tile *t, int rows, int vectors, size_t first,
                                 float32x4_t part[][8]) {
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            float *y = t->y + (size_t)r * t->y_stride + first + 4 * (size_t)v;
            float32x4_t sum = t->first ? vdupq_n_f32(0) : vld1q_f32(y);
            vst1q_f32(y, vfmaq_f32(sum, part[r][v], vdupq_n_f32(t->s[0][r])));
        }
}

#endif /* __aarch64__ */
