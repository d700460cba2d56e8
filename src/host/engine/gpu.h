/* SPDX-License-Identifier: Apache-2.0
 * Describes the GPUs of this machine: their properties and limits, as far as an engine needs them.
 * In a build without -Dcuda=enabled all calls return STATUS_UNSUPPORTED.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct gpu {
    char name[128];
    uint32_t compute_major, compute_minor; /* compute capability; the kernels are for 9.0 */
    uint32_t multiprocessors;
    uint32_t clock_khz, memory_clock_khz; /* highest */
    uint32_t memory_bus_bits;
    uint64_t memory_bytes, memory_free_bytes;
    uint64_t l2_bytes;
    uint64_t block_shared_bytes; /* limit of shared memory per thread block */
};

struct gpu_libraries { /* versions, as their makers write them: 13010 is 13.1 */
    uint32_t driver, runtime;
    uint32_t blas; /* cuBLASLt: 130100 is 13.1.0 */
};

/* STATUS_UNSUPPORTED: a build without CUDA, or a machine without a driver or a GPU. */
enum status gpu_count(uint32_t *count_out, struct error *error) MUST_USE;

/* index < gpu_count. */
enum status gpu_describe(uint32_t index, struct gpu *gpu_out, struct error *error) MUST_USE;

enum status gpu_libraries(struct gpu_libraries *libraries_out, struct error *error) MUST_USE;
