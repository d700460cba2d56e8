/* SPDX-License-Identifier: Apache-2.0
 * Probes with AVX2: 12 chains of multiply-adds hide their latency; reads of whole cache lines.
 */
#include "compute/kernels/tables.h"

#include <immintrin.h>

#define CHAINS 12

double probe_avx2_multiply(uint64_t rounds) {
    __m256 sum[CHAINS], x = _mm256_set1_ps(0.5f);
#pragma GCC unroll 12
    for (int c = 0; c < CHAINS; c++)
        sum[c] = _mm256_setzero_ps();
    for (uint64_t i = 0; i < rounds; i++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++) {
            sum[c] = _mm256_fmadd_ps(sum[c], x, x);
            __asm__ volatile("" : "+x"(sum[c])); /* keeps the chain as it is written */
        }
    return (double)rounds * CHAINS * 8 * 2;
}

uint64_t probe_avx2_read(const void *data, size_t bytes, uint32_t streams) {
    const char *from = data;
    size_t run = bytes / streams;
    __m256i sum = _mm256_setzero_si256(), other = sum;
    for (size_t i = 0; i < run; i += 64)
        for (uint32_t s = 0; s < streams; s++) {
            const char *line = from + s * run + i;
            _mm_prefetch(line + 2048, _MM_HINT_T0);
            sum = _mm256_xor_si256(sum, _mm256_load_si256((const __m256i *)(const void *)line));
            other = _mm256_xor_si256(other,
                                     _mm256_load_si256((const __m256i *)(const void *)(line + 32)));
        }
    uint64_t words[4];
    _mm256_storeu_si256((__m256i *)(void *)words, _mm256_xor_si256(sum, other));
    return words[0] ^ words[1] ^ words[2] ^ words[3];
}
