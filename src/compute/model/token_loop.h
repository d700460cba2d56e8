/* SPDX-License-Identifier: Apache-2.0
 * Parallel loops over tokens, for the CPU's functions of compute.h. The items of a loop are
 * independent, and the order of additions within an item is fixed. Neither the batch nor the number
 * of threads therefore changes a result. A loop returns when all its items are done.
 *
 * The residual stream is float32 in all activation modes. linear.h documents the linears' rounding.
 */
#pragma once

#include "compute/model/compute_layer.h"
#include "compute/model/scratch.h"

/* Calls `work` for all tokens, divided among the team's threads if there are enough tokens. */
void token_loop_run(const struct model *model, team_work *work, void *context, uint32_t count);

/* scratch.normed = RMSNorm of the batch's x, or of normed itself where x has several streams;
 * scratch.input = the same in the format `input`; unless `shared` is NULL, scratch.input_shared =
 * the same in the format `shared`. */
void token_loop_normalize(const struct pass *pass, const float *norm, enum input_kind input,
                          const enum input_kind *shared);

/* Computes one linear for the first `rows` prepared rows of the buffer: y [rows][y_stride]. */
void token_loop_linear(const struct model *model, const struct packed_matrix *weights,
                       const struct input_buffer *buffer, float *y, size_t y_stride, uint32_t rows);
