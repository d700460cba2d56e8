/* SPDX-License-Identifier: Apache-2.0
 * Weights of any type as floats.
 */
#pragma once

#include "compute/kernels/cuda/float_gemm.h"
#include "compute/kernels/cuda/gpu.cuh"

/* A code's value: its bits stand where a float's do, but for the exponents' offsets. */
GPU_DEVICE float value_of_code(uint8_t code) {
    float size = gpu_float((uint32_t)(code & 0x7Fu) << 20) * 0x1p120f;
    return code & 0x80u ? -size : size;
}

/* A value of a row; FP8 codes without their scale. */
GPU_DEVICE float value_at(const char *row, enum float_gemm_type type, uint32_t k) {
    if (type == FLOAT_GEMM_F32) return ((const float *)row)[k];
    if (type == FLOAT_GEMM_BF16) return gpu_from_bf16(((const uint16_t *)row)[k]);
    return value_of_code(((const uint8_t *)row)[k]);
}
