/* SPDX-License-Identifier: Apache-2.0
 * Rotary positions. Frequencies come with the shape (YaRN applied); angles are float32 products as
 * in DeepSeek's own code, their cosines and sines are taken in double once per step and token.
 *
 * Pairs are (2i, 2i + 1) when the layout is interleaved, as DeepSeek stores its weights, otherwise
 * (i, i + dim/2). Transformers permutes to halves first and rotates then: the same pairs, the same
 * scores.
 */
#pragma once

#include "compute/weights/shape.h"

/* angles[count][rope_dim]: of each position, the cosine of each pair's angle, then the sines. */
void rope_prepare(const struct shape *shape, const uint32_t *positions, uint32_t count,
                  float *angles);

/* Rotates a vector in place by one position's angles. */
void rope_rotate(const struct shape *shape, const float *angles, float *x /* [rope_dim] */);
