/* SPDX-License-Identifier: Apache-2.0
 * Rotary positions. Frequencies come with the shape (YaRN applied); angles are float32 products as
 * in DeepSeek's own code, their cosines and sines are taken in double once per step and token.
 *
 * Pairs are (2i, 2i+1) when the layout is interleaved, as DeepSeek stores its weights; (i, i +
 * dim/2) otherwise. Transformers permutes to halves first and rotates then: the same pairs, the
 * same scores.
 */
#include "compute/model/compute_cpu.h"

#include <math.h>

void rope_prepare(const struct shape *shape, struct batch *batch) {
    uint32_t pairs = shape->rope_dim / 2;
    for (uint32_t token = 0; token < batch->token_count; token++) {
        float *angles = batch->angles + (size_t)token * shape->rope_dim;
        for (uint32_t i = 0; i < pairs; i++) {
            float angle = (float)batch->positions[token] * shape->rope_frequency[i];
            angles[i] = (float)cos((double)angle) * shape->rope_amplitude;
            angles[pairs + i] = (float)sin((double)angle) * shape->rope_amplitude;
        }
    }
}

void rope_rotate(const struct shape *shape, const float *angles, float *x) {
    uint32_t pairs = shape->rope_dim / 2;
    uint32_t step = shape->rope_interleaved ? 2 : 1, apart = shape->rope_interleaved ? 1 : pairs;
    for (uint32_t i = 0; i < pairs; i++) {
        float *a = x + i * step, *b = a + apart;
        float real = *a * angles[i] - *b * angles[pairs + i];
        float imaginary = *a * angles[pairs + i] + *b * angles[i];
        *a = real;
        *b = imaginary;
    }
}
