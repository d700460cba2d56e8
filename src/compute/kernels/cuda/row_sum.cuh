/* SPDX-License-Identifier: Apache-2.0
 * A norm's sum in its twin's order: 16 lanes over the row, then halves (compute/kernels/kernels.h).
 */
#pragma once

#include "compute/kernels/cuda/gpu.cuh"

#define SUM_LANES 16u

/* 1 / sqrt(mean of the squares of values[n] + epsilon). The first warp calls, all of it. */
GPU_DEVICE float norm_factor(const float *values, uint32_t n, float epsilon) {
    uint32_t lane = gpu_thread();
    float sum = 0;
    if (lane < SUM_LANES)
        for (uint32_t i = lane; i < n; i += SUM_LANES)
            sum = gpu_fma(values[i], values[i], sum);
    for (uint32_t width = SUM_LANES / 2; width; width /= 2)
        sum = sum + gpu_float(gpu_lane_value(gpu_bits(sum), lane + width));
    return gpu_divide(1.0f, gpu_root(gpu_divide(sum, (float)n) + epsilon));
}
