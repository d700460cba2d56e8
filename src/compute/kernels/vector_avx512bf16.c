/* SPDX-License-Identifier: Apache-2.0
 * Vector kernels of both levels with BF16 instructions, the online softmax: vector_c.c, 16 scores
 * at a time. Weights are rounded by VCVTNEPS2BF16, which takes subnormal numbers for zeros: no
 * exponential is one.
 *
 * KERNEL_EMULATE_BF16 builds the same code without that, for tests on CPUs that lack it.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/vector_avx512.h"

#ifdef KERNEL_EMULATE_BF16
#define vector_avx512bf16_softmax_avx512bf16_run softmax_avx512bf16_emulated_run
float vector_avx512bf16_softmax_avx512bf16_run(uint16_t *weights, const float *scores,
                                               uint32_t count, float a, float *max, float *sum);
#define round_bf16(v) _mm512_cvtepi32_epi16(bf16_bits(v))
#else
#define round_bf16(v) ((__m256i)_mm512_cvtneps_pbh(v))
#endif

/* Scores become weights, which are returned as they were before they were rounded. */
ALWAYS_INLINE __m512 weigh(uint16_t *weights, __m512 scores, __m512 scale, __m512 offset) {
    __m512 v = exponential(_mm512_fmadd_ps(scores, scale, offset));
    _mm256_storeu_si256((__m256i *)(void *)weights, round_bf16(v));
    return v;
}

float vector_avx512bf16_softmax_avx512bf16_run(uint16_t *weights, const float *scores,
                                               uint32_t count, float a, float *max, float *sum) {
    const uint32_t whole = count / 16 * 16, end = (uint32_t)round_up(count, KV_BLOCK_TOKENS);
    const __m512 none = _mm512_set1_ps(-INFINITY);
    const __m512 rest = _mm512_mask_loadu_ps(none, mask_from(whole, count), scores + whole);
    __m512 lanes = rest;
    for (uint32_t i = 0; i < whole; i += 16)
        lanes = _mm512_max_ps(_mm512_loadu_ps(scores + i), lanes);
    float new_max = lanes_maximum(lanes), factor = 1, old_max = *max;
    if (new_max > old_max) {
        *max = new_max;
        __m512 change = _mm512_set1_ps((old_max - new_max) * a);
        factor = old_max == -INFINITY ? 0 : _mm512_cvtss_f32(exponential(change));
    }
    const __m512 scale = _mm512_set1_ps(a), offset = _mm512_set1_ps(-(*max * a));
    lanes = _mm512_setzero_ps();
    uint32_t i = 0;
#pragma GCC unroll 4
    for (; i < whole; i += 16)
        lanes =
            _mm512_add_ps(lanes, weigh(weights + i, _mm512_loadu_ps(scores + i), scale, offset));
    if (whole < count) { /* behind count: 0 */
        lanes = _mm512_add_ps(lanes, weigh(weights + i, rest, scale, offset));
        i += 16;
    }
    for (; i < end; i += 16)
        _mm256_storeu_si256((__m256i *)(void *)(weights + i), _mm256_setzero_si256());
    *sum = *sum * factor + lanes_sum(lanes);
    return factor;
}
