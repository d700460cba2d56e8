/* SPDX-License-Identifier: Apache-2.0
 * Vector kernels in plain C that each level compiles for its own instruction set, and the list of
 * all kernels that a vector_*.c file has. The compiler neither contracts nor reorders a sum, so
 * each level gives the same bits. A kernel that must be faster has a body in each file instead.
 */
#pragma once

#include "compute/kernels/kernels.h"

static void rotate(float *restrict x, const float *restrict angles, uint32_t pairs,
                   bool interleaved) {
    const float *cosines = angles, *sines = angles + pairs;
    for (uint32_t i = 0; interleaved && i < pairs; i++) {
        float real = x[2 * i], imaginary = x[2 * i + 1];
        x[2 * i] = real * cosines[i] - imaginary * sines[i];
        x[2 * i + 1] = real * sines[i] + imaginary * cosines[i];
    }
    for (uint32_t i = 0; !interleaved && i < pairs; i++) {
        float real = x[i], imaginary = x[pairs + i];
        x[i] = real * cosines[i] - imaginary * sines[i];
        x[pairs + i] = real * sines[i] + imaginary * cosines[i];
    }
}

/* For the table of a level. */
#define VECTOR_KERNELS                                                                             \
    .rmsnorm = rmsnorm, .silu_multiply = silu_multiply, .add_scaled = add_scaled, .scale = scale,  \
    .maximum = maximum, .exp_sum = exp_sum, .round_bf16 = round_bf16, .bf16_from_float = to_bf16,  \
    .float_from_bf16 = from_bf16, .add_sum_bf16 = add_sum_bf16, .sum_positive = sum_positive,      \
    .float_from_e4m3 = from_e4m3, .quantize_e4m3 = quantize_e4m3, .quantize_int8 = quantize_int8,  \
    .transpose = transpose, .rotate = rotate
