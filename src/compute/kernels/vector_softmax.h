/* SPDX-License-Identifier: Apache-2.0
 * The online softmax whose weights are BF16, vector_c.c a vector of scores at a time: the same text
 * for all levels that have it. A file includes its lanes and defines store_weights first; to others
 * this is empty.
 */
#pragma once

#ifdef LANES
#include "base/bytes.h"
#include "base/limits.h"
#include "compute/kernels/lanes.h"

/* 16 scores, or `count` of them and zeros. */
ALWAYS_INLINE void weigh(struct sixteen *sums, uint16_t *weights, const float *scores, lanes factor,
                         lanes offset, uint32_t count) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < VECTORS_OF_16; v++) {
        lanes value = load(scores + v * LANES, sixteen_part(count, v), -INFINITY);
        value = exponential(lanes_fma(value, factor, offset));
        store_weights(weights + v * LANES, value);
        sums->of[v] += value;
    }
}

ALWAYS_INLINE float softmax(uint16_t *weights, const float *scores, uint32_t n, float a, float *max,
                            float *sum) {
    struct sixteen most = sixteen_all(-INFINITY), sums = sixteen_all(0);
    EACH(16, n, take_larger(&most, scores + i, count));
    float new_max = lanes_most(most.of), factor = 1, old_max = *max;
    if (new_max > old_max) {
        *max = new_max;
        factor = old_max == -INFINITY ? 0 : exponential(lanes_all((old_max - new_max) * a))[0];
    }
    lanes scale = lanes_all(a), offset = lanes_all(-(*max * a));
    EACH(16, n, weigh(&sums, weights + i, scores + i, scale, offset, count));
    const size_t written = round_up(n, 16), end = round_up(n, KV_BLOCK_TOKENS);
    memset(weights + written, 0, (end - written) * sizeof *weights);
    *sum = *sum * factor + lanes_sum(sums.of);
    return factor;
}

#endif /* LANES */
