/* SPDX-License-Identifier: Apache-2.0
 * A softmax over the rows of a warpgroup's accumulator (gpu.cuh, wgmma): a thread has a part of two
 * rows, and four lanes side by side have a row.
 */
#pragma once

#include "compute/kernels/cuda/gpu.cuh"

#define LOG2E 1.4426950408889634f

/* Two of a thread's rows, eight rows apart. */
struct two {
    float value[2];
};

GPU_DEVICE float larger(float a, float b) {
    return a > b ? a : b;
}

/* Over the lanes of a row. */
GPU_DEVICE float row_largest(float value) {
    uint32_t lane = gpu_thread() % GPU_WARP;
    for (uint32_t apart = 1; apart < 4; apart *= 2)
        value = larger(value, gpu_float(gpu_lane_value(gpu_bits(value), lane ^ apart)));
    return value;
}

GPU_DEVICE float row_total(float value) {
    uint32_t lane = gpu_thread() % GPU_WARP;
    for (uint32_t apart = 1; apart < 4; apart *= 2)
        value = value + gpu_float(gpu_lane_value(gpu_bits(value), lane ^ apart));
    return value;
}
