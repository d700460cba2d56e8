/* SPDX-License-Identifier: Apache-2.0
 * The index of V4's layers: which entries a token attends to.
 *
 *   q[h] = rope(wq_b qr)[h];  w[h] = (weights_proj x)[h] / sqrt(index_heads * index_dim)
 *   I[j] = sum over h, ascending, of w[h] * max(0, q[h].k[j])
 *
 * Keys k[j] come from a compressor of their own (V4), or are rope(rms(wk e[j]) * k_norm) of the
 * entries (V4.1); they lie in the page of entry j. A token reads the index_top_k entries with the
 * largest I, of equal ones the earlier, among those that are complete, (p + 1) / ratio of them. A
 * layer that makes no choice of its own takes that of its source.
 *
 * V4.1 chooses blocks first: candidate_layer scores blocks of candidate_block entries by their
 * largest I, the newest block by +infinity, and the candidate_blocks best of them are the
 * candidates. That layer itself chooses among all entries, later ones among the candidates.
 * Source: DeepSeek-V4 and V4.1, inference/model.py (Indexer).
 */
#pragma once

#include "compute/model/pass.h"

/* Writes index keys of the entries that the batch completes. Comes after the entries. */
void compressed_index_write_keys(const struct pass *pass);
/* Chooses the batch's entries: scratch.chosen, scratch.chosen_count. scratch.input has the tokens'
 * qr as prepared for wq_b, and scratch.index_w the heads' weights. */
void compressed_index_choose(const struct pass *pass);

/* compute.rows_attended: numbers of entries. */
void compressed_index_attended(const struct pass *pass, uint32_t token, uint32_t *entries_out);

/* The operators of the choice of blocks. Writes the `most` best blocks of `size` of the scores
 * [end], ascending, and returns their number. best: [blocks], scratch. */
uint32_t compressed_index_candidates(const float *scores, uint32_t end, uint32_t size,
                                     uint32_t most, float *best, uint32_t *blocks_out);
/* Gives entries outside of the blocks the score -infinity. Returns the number of the others. */
uint32_t compressed_index_limit(float *scores, uint32_t end, uint32_t size, const uint32_t *blocks,
                                uint32_t count);
