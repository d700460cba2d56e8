/* SPDX-License-Identifier: Apache-2.0
 * fathom inspect gpu: the GPUs of this machine, and the limits of an engine on them.
 */
#include <stdio.h>

#include "host/engine/gpu.h"
#include "programs/programs.h"

const struct option_table inspect_gpu_options = {
    .command = "inspect gpu",
    .arguments = "",
    .description = "Prints the GPUs of this machine, their limits, and the versions of CUDA.",
};

/* Memory transfers data twice per clock cycle. */
static void print_gpu(uint32_t index, const struct gpu *gpu) {
    double gb_per_s = 2.0 * gpu->memory_clock_khz * 1e3 * gpu->memory_bus_bits / 8 * 1e-9;
    printf("gpu %-14u %s\n", index, gpu->name);
    printf("%-18s %u.%u\n", "compute capability", gpu->compute_major, gpu->compute_minor);
    printf("%-18s %u at up to %.0f MHz\n", "multiprocessors", gpu->multiprocessors,
           gpu->clock_khz * 1e-3);
    printf("%-18s %.1f GiB, %.1f free, %.0f GB/s by its clock\n", "memory",
           (double)gpu->memory_bytes / (1 << 30), (double)gpu->memory_free_bytes / (1 << 30),
           gb_per_s);
    printf("%-18s %.0f MiB\n", "L2 cache", (double)gpu->l2_bytes / (1 << 20));
    printf("%-18s %.0f KiB a block\n", "shared memory", (double)gpu->block_shared_bytes / 1024);
}

static void print_libraries(const struct gpu_libraries *libraries) {
    printf("%-18s driver for CUDA %u.%u, runtime %u.%u, cuBLASLt %u.%u.%u\n", "libraries",
           libraries->driver / 1000, libraries->driver % 1000 / 10, libraries->runtime / 1000,
           libraries->runtime % 1000 / 10, libraries->blas / 10000, libraries->blas / 100 % 100,
           libraries->blas % 100);
}

int inspect_gpu(void *values, const struct option_result *result) {
    struct error error;
    struct gpu_libraries libraries;
    uint32_t count = 0;
    enum status status = gpu_count(&count, &error);
    for (uint32_t i = 0; !status && i < count; i++) {
        struct gpu gpu;
        status = gpu_describe(i, &gpu, &error);
        if (!status) print_gpu(i, &gpu);
    }
    if (!status) status = gpu_libraries(&libraries, &error);
    if (!status) print_libraries(&libraries);
    return command_end(status, &error);
}
