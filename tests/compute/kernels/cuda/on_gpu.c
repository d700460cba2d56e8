/* SPDX-License-Identifier: Apache-2.0
 * The kernels' tests on a GPU, instead of device.c and the emulator: memory that both sides see,
 * and of the emulator's calls those that tests make. The end of a collection waits for the launches
 * and tells what went wrong; nothing is checked beyond that. Verified by emulation; not yet run on
 * a GPU.
 */
#include "device.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct emulate_report *collected;

void *device_new(size_t bytes, const char *name) {
    void *memory = NULL;
    cudaError_t status = cudaMallocManaged(&memory, bytes + 256, cudaMemAttachGlobal);
    if (status != cudaSuccess) fail_msg("%s: %s", name, cudaGetErrorString(status));
    memset(memory, 0xFF, bytes);
    return memory;
}

void *device_new_copy(const void *from, size_t bytes, const char *name) {
    return memcpy(device_new(bytes, name), from, bytes);
}

void device_free(void *memory) {
    cudaFree(memory);
}

uint32_t device_seeds(void) {
    const char *text = getenv("FATHOM_EMULATE_SEEDS");
    return text ? (uint32_t)strtoul(text, NULL, 10) : 20;
}

void device_check(const struct emulate_report *report) {
    if (report->made) fail_msg("%s", report->text);
}

void emulate_collect(struct emulate_report *report) {
    if (!report && collected) {
        cudaError_t launched = cudaGetLastError(), ended = cudaDeviceSynchronize();
        cudaError_t status = launched == cudaSuccess ? ended : launched;
        collected->made = status != cudaSuccess;
        snprintf(collected->text, sizeof collected->text, "%s", cudaGetErrorString(status));
    }
    collected = report;
}

void emulate_seed(uint64_t seed) {
}

void emulate_e4m3_bits(uint32_t bits) {
}

void emulate_memory_add(const void *base, size_t bytes, const char *name) {
}

void emulate_memory_drop(const void *base) {
}
