/* SPDX-License-Identifier: Apache-2.0
 * Describes GPUs with CUDA's runtime.
 */
#include "host/engine/gpu.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "base/format.h"

static enum status gpu_cuda_failed(cudaError_t code, const char *what, struct error *error) {
    return error_set(error, STATUS_UNSUPPORTED, "%s: CUDA says '%s'", what,
                     cudaGetErrorString(code));
}

enum status gpu_count(uint32_t *count_out, struct error *error) {
    int count = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code != cudaSuccess) return gpu_cuda_failed(code, "no GPU can be used", error);
    *count_out = (uint32_t)count;
    return STATUS_OK;
}

enum status gpu_describe(uint32_t index, struct gpu *gpu_out, struct error *error) {
    static const enum cudaDeviceAttr asked[] = {
        cudaDevAttrComputeCapabilityMajor,
        cudaDevAttrComputeCapabilityMinor,
        cudaDevAttrMultiProcessorCount,
        cudaDevAttrClockRate,
        cudaDevAttrMemoryClockRate,
        cudaDevAttrGlobalMemoryBusWidth,
        cudaDevAttrL2CacheSize,
        cudaDevAttrMaxSharedMemoryPerBlockOptin,
    };
    int values[sizeof asked / sizeof asked[0]];
    struct cudaDeviceProp properties;
    size_t free_bytes, all_bytes;
    cudaError_t code = cudaSetDevice((int)index);
    for (size_t i = 0; !code && i < sizeof asked / sizeof asked[0]; i++)
        code = cudaDeviceGetAttribute(&values[i], asked[i], (int)index);
    if (!code) code = cudaGetDeviceProperties(&properties, (int)index);
    if (!code) code = cudaMemGetInfo(&free_bytes, &all_bytes);
    if (code) return gpu_cuda_failed(code, "a GPU cannot be used", error);
    *gpu_out = (struct gpu){
        .compute_major = (uint32_t)values[0],
        .compute_minor = (uint32_t)values[1],
        .multiprocessors = (uint32_t)values[2],
        .clock_khz = (uint32_t)values[3],
        .memory_clock_khz = (uint32_t)values[4],
        .memory_bus_bits = (uint32_t)values[5],
        .memory_bytes = all_bytes,
        .memory_free_bytes = free_bytes,
        .l2_bytes = (uint64_t)values[6],
        .block_shared_bytes = (uint64_t)values[7],
    };
    format_text(gpu_out->name, sizeof gpu_out->name, "%s", properties.name);
    return STATUS_OK;
}

enum status gpu_libraries(struct gpu_libraries *libraries_out, struct error *error) {
    int driver, runtime;
    cudaError_t code = cudaDriverGetVersion(&driver);
    if (!code) code = cudaRuntimeGetVersion(&runtime);
    if (code) return gpu_cuda_failed(code, "CUDA has no version", error);
    *libraries_out = (struct gpu_libraries){.driver = (uint32_t)driver,
                                            .runtime = (uint32_t)runtime,
                                            .blas = (uint32_t)cublasLtGetVersion()};
    return STATUS_OK;
}
