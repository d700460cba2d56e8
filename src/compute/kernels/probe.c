/* SPDX-License-Identifier: Apache-2.0
 * Chooses among the probes of the CPU's levels; plain C where there is neither AVX2 nor NEON.
 */
#include "compute/kernels/probe.h"

#include "compute/kernels/tables.h"

static double multiply_plain(uint64_t rounds) {
    float sum[8] = {0};
    volatile float factor = 0.5f;
    float x = factor;
    for (uint64_t i = 0; i < rounds; i++)
        for (int c = 0; c < 8; c++)
            sum[c] = sum[c] * x + x;
    for (int c = 0; c < 8; c++)
        factor = sum[c];
    return (double)rounds * 8 * 2;
}

static uint64_t read_plain(const void *data, size_t bytes, uint32_t streams) {
    const uint64_t *words = data;
    size_t count = bytes / sizeof *words / streams;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        for (uint32_t s = 0; s < streams; s++)
            sum ^= words[s * count + i];
    return sum;
}

double probe_multiply(enum probe_kind kind, uint64_t rounds) {
    enum kernel_level best = kernels_detect();
#if defined(FATHOM_KERNELS_X86)
    if (kind == PROBE_BF16)
        return best >= KERNEL_LEVEL_AMX          ? probe_amx_multiply(rounds)
               : best >= KERNEL_LEVEL_AVX512BF16 ? probe_avx512bf16_multiply(rounds)
                                                 : 0;
    if (best >= KERNEL_LEVEL_AVX512) return probe_avx512_multiply(rounds);
    if (best >= KERNEL_LEVEL_AVX2) return probe_avx2_multiply(rounds);
#elif defined(FATHOM_KERNELS_ARM)
    if (kind == PROBE_BF16)
        return best >= KERNEL_LEVEL_NEONBF16 ? probe_neonbf16_multiply(rounds) : 0;
    if (best >= KERNEL_LEVEL_NEON) return probe_neon_multiply(rounds);
#endif
    return best == KERNEL_LEVEL_C && kind == PROBE_FMA ? multiply_plain(rounds) : 0;
}

uint64_t probe_read(const void *data, size_t bytes, uint32_t streams) {
#if defined(FATHOM_KERNELS_X86)
    if (kernels_detect() >= KERNEL_LEVEL_AVX2) return probe_avx2_read(data, bytes, streams);
#elif defined(FATHOM_KERNELS_ARM)
    if (kernels_detect() >= KERNEL_LEVEL_NEON) return probe_neon_read(data, bytes, streams);
#endif
    return read_plain(data, bytes, streams);
}
