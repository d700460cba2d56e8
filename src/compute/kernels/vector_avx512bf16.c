/* SPDX-License-Identifier: Apache-2.0
 * Vector kernels of both levels with BF16 instructions, the online softmax: vector_c.c, 16 scores
 * at a time. Weights are rounded by VCVTNEPS2BF16, which takes subnormal numbers for zeros: no
 * exponential is one.
 *
 * KERNEL_EMULATE_BF16 builds the same code without that, for tests on CPUs that lack it.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/lanes_avx512.h"

#include "compute/kernels/lanes.h"

#ifdef KERNEL_EMULATE_BF16
#define vector_avx512bf16_softmax_avx512bf16_run softmax_avx512bf16_emulated_run
float vector_avx512bf16_softmax_avx512bf16_run(uint16_t *weights, const float *scores,
                                               uint32_t count, float a, float *max, float *sum);
#define store_weights(weights, v) store_bf16(weights, v, LANES)
#else
#define store_weights(weights, v)                                                                  \
    _mm256_storeu_si256((__m256i *)(void *)(weights), (__m256i)_mm512_cvtneps_pbh(v))
#endif
#include "compute/kernels/vector_softmax.h"

float vector_avx512bf16_softmax_avx512bf16_run(uint16_t *weights, const float *scores,
                                               uint32_t count, float a, float *max, float *sum) {
    return softmax(weights, scores, count, a, max, sum);
}
