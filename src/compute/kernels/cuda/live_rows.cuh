/* SPDX-License-Identifier: Apache-2.0
 * What kernels ask of live_rows.h.
 */
#pragma once

#include "compute/kernels/cuda/gpu.cuh"
#include "compute/kernels/cuda/live_rows.h"

/* The number of rows that exist, the first of the launch's `rows`. */
GPU_DEVICE uint32_t rows_there(const struct live_rows *live, uint32_t rows) {
    if (!live->count) return rows;
    uint32_t all = *live->count * live->each;
    uint32_t there = all > live->before ? all - live->before : 0;
    return there < rows ? there : rows;
}

GPU_DEVICE bool is_there(const struct live_rows *live, uint32_t row) {
    return row < rows_there(live, row + 1);
}
