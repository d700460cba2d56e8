/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/rope.h"

#include <math.h>

void rope_prepare(const struct shape *shape, const uint32_t *positions, uint32_t count,
                  float *angles) {
    uint32_t pairs = shape->rope_dim / 2;
    for (uint32_t token = 0; token < count; token++, angles += shape->rope_dim)
        for (uint32_t i = 0; i < pairs; i++) {
            float angle = (float)positions[token] * shape->rope_frequency[i];
            angles[i] = (float)cos((double)angle) * shape->rope_amplitude;
            angles[pairs + i] = (float)sin((double)angle) * shape->rope_amplitude;
        }
}

void rope_rotate(uint32_t pairs, bool interleaved, const float *angles, float *x) {
    uint32_t step = interleaved ? 2 : 1, apart = interleaved ? 1 : pairs;
    for (uint32_t i = 0; i < pairs; i++) {
        float *a = x + i * step, *b = a + apart;
        float real = *a * angles[i] - *b * angles[pairs + i];
        float imaginary = *a * angles[pairs + i] + *b * angles[i];
        *a = real;
        *b = imaginary;
    }
}
