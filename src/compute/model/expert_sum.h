/* SPDX-License-Identifier: Apache-2.0
 * The order in which a token's expert results are summed. In both orders every result is first
 * rounded to the exchange type r (BF16; F32 in the f32 modes), and the shared expert comes last:
 *
 *   experts  y = sum over the chosen experts e, ascending, of w_e * r(y_e), by fma from 0
 *   groups   y = sum over the router's groups, ascending, of r(sum over the group's chosen experts,
 *            ascending, of w_e * r(y_e), by fma from 0)
 *
 * Both run in F32. Any rank that has all results of a group can compute the group's sum and send
 * one row instead of several. The bits are the same.
 */
#pragma once

#include "compute/model/exchange_rows.h"

enum expert_sum { EXPERT_SUM_EXPERTS, EXPERT_SUM_GROUPS, EXPERT_SUM_COUNT };

/* The order named "experts" or "groups". */
enum status expert_sum_named(const char *name, enum expert_sum *out, struct error *error) MUST_USE;

/* y[n] = y + r(sum of a group's results): rows[count] of values as an exchange sends them, F32 or
 * BF16, with their weights. `room`: n floats to work in. */
void expert_sum_add(const struct kernels *kernels, enum row_mla_mode form, float *y,
                    const char *const *rows, const float *weights, uint32_t count, uint32_t n,
                    float *room);
