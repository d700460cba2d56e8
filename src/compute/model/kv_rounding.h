/* SPDX-License-Identifier: Apache-2.0
 * The rounding of V4's KV rows, which its training knows: all released code does it. Values stay
 * floats. Nothing is rounded with model.kv_rounding off (--kv-rounding off).
 *
 *                     V4                                V4.1
 *   window            E4M3 by 64, without RoPE's        E4M3 by 32
 *   entries           like the window                   E2M1 by 16, E4M3 scales
 *   index keys and    Hadamard transform, then          E2M1 by 32
 *   index queries     E2M1 by 32
 *
 * Source: DeepSeek-V4 and V4.1, inference/model.py and kernel.py.
 */
#pragma once

#include "compute/model/model_state.h"

/* A row of the window, [kv_width], after RoPE. */
void kv_rounding_window(const struct model *model, float *row);
/* An entry, [kv_width], after RoPE. */
void kv_rounding_entry(const struct model *model, float *row);
/* An index key or a head's index query, [index_dim], after RoPE. */
void kv_rounding_key(const struct model *model, float *row);

/* The operators. Groups of `group` channels share a scale: the least power of two that keeps the
 * largest value within the type, or for E2M1 with `e4m3_scales` the nearest E4M3 number. */
void kv_rounding_e4m3(float *x, uint32_t count, uint32_t group);
void kv_rounding_e2m1(float *x, uint32_t count, uint32_t group, bool e4m3_scales);
