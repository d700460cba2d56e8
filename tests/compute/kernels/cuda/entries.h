/* SPDX-License-Identifier: Apache-2.0
 * Entries of the device's table of kernels (compute/gpu/gpu_kernels.h), for tests: numbers by
 * chance, and what an entry writes, once by the reference body and once by a kernel.
 */
#pragma once

#include "device.h"

#include "base/number.h"
#include "compute/gpu/gpu_kernels.h"

#define ROWS 5u

static uint64_t random_state = 5;

static inline uint32_t draw(uint32_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % below);
}

static inline float draw_number(void) {
    return ((float)draw(1 << 20) - (1 << 19)) * 0x1p-17f;
}

static inline float *numbers(size_t count, const char *name) {
    float *x = device_new(count * sizeof *x, name);
    for (size_t i = 0; i < count; i++)
        x[i] = draw_number();
    return x;
}

/* What an entry writes, once by the reference body and once by kernels. */
struct output {
    char *expected, *found;
    size_t bytes;
};

static inline struct output output_new(size_t bytes, const char *name) {
    return (struct output){device_new(bytes, name), device_new(bytes, name), bytes};
}

static inline void output_check(const struct output *output, const char *what) {
    for (size_t i = 0; i < output->bytes; i++)
        if (output->expected[i] != output->found[i]) fail_msg("%s: byte %zu differs", what, i);
}

static inline void output_free(struct output *output) {
    device_free(output->expected);
    device_free(output->found);
}

/* Without a report from the emulator. */
static inline void launch(const struct device_kernel *kernel, const void *arguments) {
    struct emulate_report report = {0};
    emulate_collect(&report);
    kernel->start(arguments, NULL);
    emulate_collect(NULL);
    device_check(&report);
}
