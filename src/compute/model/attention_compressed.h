/* SPDX-License-Identifier: Apache-2.0
 * Attention of V4 on the CPU. All heads share one vector e of a token, which is key and value.
 *
 *   qr = rms(wq_a x) * q_norm;  q[h] = rms(wq_b qr)[h], without weights (V4.1: no norm)
 *   kv = rms(wkv x) * kv_norm;  RoPE on the last rope_dim channels of q and kv
 *   rows: kv of the window's tokens, the own one included, then entries (compressor.h): all
 *         complete ones, or those that the index chose (compressed_index.h)
 *   p = exp(scale * q[h].e) / (sum over all rows + exp(sink[h]));  o[h] = sum of p * e
 *   o[h]'s last channels are rotated back by the token's own position
 *   y = wo_b concat over groups g of (wo_a[g] concat over the group's heads of o[h])
 *
 * Layers without entries have RoPE frequencies of their own. A token's rows come in a fixed order,
 * in chunks that depend on its position alone, so that neither batch nor chunk changes a bit. All
 * reads of earlier tokens happen in attention_compressed_begin, which then writes the ring.
 * Source: DeepSeek-V4, inference/model.py.
 */
#pragma once

#include "compute/model/pass.h"

void attention_compressed_begin(const struct pass *pass);
void attention_compressed_finish(const struct pass *pass);
/* Computes and writes only the window's rows. */
void attention_compressed_write_rows(const struct pass *pass);

/* An entry that the layer attends to, or its index key, in the run's pages. */
char *attention_compressed_row(const struct pass *pass, const struct run *run,
                               enum compressed_kind kind, uint32_t entry);
/* The RoPE angles of the layer's tokens: [tokens][rope_dim]. */
const float *attention_compressed_angles(const struct pass *pass);
/* Rotates the last rope_dim of `width` channels. */
void attention_compressed_rotate(const struct model *model, const float *angles, float *x,
                                 uint32_t width);
