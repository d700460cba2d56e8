/* SPDX-License-Identifier: Apache-2.0
 * The angles of the rotary position embedding (RoPE), which the kernel `rotate` applies.
 * Frequencies come with the shape (YaRN applied). Angles are float32 products as in DeepSeek's own
 * code. Cosines and sines are computed in double, once per step and token.
 *
 * Pairs are (2i, 2i + 1) when the layout is interleaved, as DeepSeek stores its weights, otherwise
 * (i, i + dim/2). Transformers first permutes to halves and then rotates: same pairs, same scores.
 */
#pragma once

#include "compute/weights/shape.h"

/* angles[count][rope_dim]: per position, the cosines of all pairs' angles, then the sines. */
void rope_prepare(const struct shape *shape, const uint32_t *positions, uint32_t count,
                  float *angles);
/* The same with frequencies of their own, and an amplitude of 1: V4's layers with entries. */
void rope_turn(const float *frequency, uint32_t rope_dim, uint32_t position, float *angles);
