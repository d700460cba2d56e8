/* SPDX-License-Identifier: Apache-2.0
 * The indexer of sparse attention (DSA): it chooses the KV rows that a token attends to. Used by
 * attention.c and the two forms of core attention alone.
 *
 *   q[h] = rope(wq_b qr)[h], qr being the normalized latent that q_b reads
 *   k[t] = rope(LayerNorm(wk x[t])), a row of the KV group KV_GROUP_INDEX
 *   w[h] = (weights_proj x)[h] / sqrt(index_heads * index_dim)
 *   I[t] = sum over h, ascending, of w[h] * max(0, q[h].k[t])
 *
 * RoPE turns the first rope_dim channels of each head. A token attends to the index_top_k rows with
 * the largest I, and of equal ones to the earlier. A token with at most index_top_k rows, its own
 * included, attends to all of them. One choice holds for all heads of MLA.
 *
 * If the keys are E4M3 codes, q[h] and k[t] go through a Hadamard transform, which changes no
 * product, and are quantized by groups of 128 channels with scales that are powers of two.
 * Source: DeepSeek-V3.2-Exp, inference/model.py (Indexer) and inference/kernel.py.
 */
#pragma once

#include "compute/model/pass.h"
#include "compute/model/scratch.h"

/* All functions do nothing, or take all rows, where layers have no indexer. A layer may share the
 * choice of the layer before it: it has no indexer, and its keys are zeros. */

/* Computes the keys of the batch's tokens from scratch.normed, and writes their rows. */
void attention_index_write_rows(const struct pass *pass);

/* Computes the queries, from scratch.q_a, and writes scratch.chosen of the tokens with more rows
 * than index_top_k. Comes right behind attention_index_write_rows, and reads what that left: keys
 * in the pages, scratch.normed, and x as prepared for wk. */
void attention_index_choose(const struct pass *pass);

/* The operators, for tests against those of the published code. */

/* LayerNorm in place: (x - mean) / sqrt(variance + 1e-6) * weight + bias. */
void attention_index_layer_norm(float *x, const float *weight, const float *bias, uint32_t count);
/* y[i] = sum over j of (-1)^popcount(i & j) x[j] / sqrt(count), in place; count is a power of 2. */
void attention_index_hadamard(float *x, uint32_t count);
/* I[t] of a token and `rows` rows, from room->index_keys [index_dim][KV_BLOCK_TOKENS]. */
void attention_index_score(const struct pass *pass, uint32_t token, uint32_t rows,
                           struct attention_scratch *room, float *scores);
/* Writes the indices [first, end) of the `wanted` largest scores, ascending; of equal scores the
 * earlier ones. end - first >= wanted. */
void attention_index_pick(const float *scores, uint32_t first, uint32_t end, uint32_t wanted,
                          uint32_t *chosen_out);

/* The number of the run's leading tokens that attend to all rows before them. */
uint32_t attention_index_dense(const struct pass *pass, const struct run *run);

/* compute.rows_attended */
void attention_index_attended(const struct pass *pass, uint32_t token, uint32_t *positions_out);

/* The KV indices of the rows that a token attends to: [index_top_k], ascending. */
const uint32_t *attention_index_chosen(const struct pass *pass, uint32_t token);
