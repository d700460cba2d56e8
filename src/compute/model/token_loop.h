/* SPDX-License-Identifier: Apache-2.0
 * Loops of the team over tokens, for the CPU's functions of compute.h. A loop's items are independent, and
 * within an item the order of additions is fixed, so neither the batch nor the threads change a result.
 * A loop returns when all its items are done.
 *
 * The residual stream is float32 in all activation modes; what linears round is in linear.h.
 */
#pragma once

#include "compute/model/compute_layer.h"
#include "compute/model/scratch.h"

/* Calls work for all tokens, in shares over the team if there are enough of them. */
void token_loop_run(const struct model *model, team_work *work, void *context, uint32_t count);

/* scratch.normed = the batch's x after a norm; scratch.input = that as `input` wants it and, unless
 * `shared` is NULL, scratch.input_shared = that as `shared` wants it. */
void token_loop_normalize(const struct pass *pass, const float *norm, enum input_kind input,
                          const enum input_kind *shared);

/* One linear over the first `rows` rows of the buffer, prepared for it: y [rows][y_stride]. */
void token_loop_linear(const struct model *model, const struct packed_matrix *weights,
                       const struct input_buffer *buffer, float *y, size_t y_stride, uint32_t rows);
