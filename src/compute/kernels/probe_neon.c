/* SPDX-License-Identifier: Apache-2.0
 * Probes with NEON: 24 chains of multiply-adds hide their latency; reads of whole cache lines. The
 * multiply probe is built a second time, with PROBE_BF16_DOT, for BFDOT.
 */
#include "compute/kernels/tables.h"

#include <arm_neon.h>

#define CHAINS 24

#ifdef PROBE_BF16_DOT
double probe_neonbf16_multiply(uint64_t rounds) {
    /* About a half; gcc 12 would load a half-float's number by an instruction for half-floats. */
    bfloat16x8_t x = vreinterpretq_bf16_u16(vdupq_n_u16(0x3F01));
#define STEP(sum) vbfdotq_f32(sum, x, x)
#define OPERATIONS 16
#else
double probe_neon_multiply(uint64_t rounds) {
    float32x4_t x = vdupq_n_f32(0.5f);
#define STEP(sum) vfmaq_f32(x, sum, x)
#define OPERATIONS 8
#endif
    float32x4_t sum[CHAINS];
#pragma GCC unroll 24
    for (int c = 0; c < CHAINS; c++)
        sum[c] = vdupq_n_f32(0);
    for (uint64_t i = 0; i < rounds; i++)
#pragma GCC unroll 24
        for (int c = 0; c < CHAINS; c++) {
            sum[c] = STEP(sum[c]);
            __asm__ volatile("" : "+w"(sum[c])); /* keeps the chain as it is written */
        }
    return (double)rounds * CHAINS * OPERATIONS;
}

#ifndef PROBE_BF16_DOT
uint64_t probe_neon_read(const void *data, size_t bytes, uint32_t streams) {
    const char *from = data;
    size_t run = bytes / streams;
    uint64x2_t sum[4] = {vdupq_n_u64(0), vdupq_n_u64(0), vdupq_n_u64(0), vdupq_n_u64(0)};
    for (size_t i = 0; i < run; i += 64)
        for (uint32_t s = 0; s < streams; s++) {
            const uint64_t *line = (const uint64_t *)(const void *)(from + s * run + i);
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++)
                sum[v] = veorq_u64(sum[v], vld1q_u64(line + 2 * v));
        }
    uint64x2_t all = veorq_u64(veorq_u64(sum[0], sum[1]), veorq_u64(sum[2], sum[3]));
    return vgetq_lane_u64(all, 0) ^ vgetq_lane_u64(all, 1);
}
#endif
