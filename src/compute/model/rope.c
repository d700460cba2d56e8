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

void rope_turn(const float *frequency, uint32_t rope_dim, uint32_t position, float *angles) {
    for (uint32_t i = 0; i < rope_dim / 2; i++) {
        float angle = (float)position * frequency[i];
        angles[i] = (float)cos((double)angle);
        angles[rope_dim / 2 + i] = (float)sin((double)angle);
    }
}
