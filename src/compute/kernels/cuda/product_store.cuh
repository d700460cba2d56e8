/* SPDX-License-Identifier: Apache-2.0
 * How a product's results leave, two neighbours of a row at a time: as floats, or rounded to BF16.
 */
#pragma once

#include "compute/kernels/cuda/gpu.cuh"

/* a and, with `both`, b to elements `at` and `at` + 1, `at` being even: of `values`, or, where that
 * is null, of `rounded`. */
GPU_DEVICE void store_two(float *values, uint16_t *rounded, size_t at, float a, float b,
                          bool both) {
    if (values) {
        if (both)
            gpu_store_pair(values + at, a, b);
        else
            values[at] = a;
    } else if (both) {
        *(uint32_t *)(rounded + at) = gpu_to_bf16_pair(a, b);
    } else {
        rounded[at] = gpu_to_bf16(a);
    }
}
