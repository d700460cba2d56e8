/* SPDX-License-Identifier: Apache-2.0
 * The compressors of V4: an entry stands for a group of `ratio` tokens, j*ratio to j*ratio+ratio-1.
 *
 *   a = value x, z = gate x + positions[t mod ratio]        of the token t, for each channel
 *   e[j] = sum over the group's tokens of softmax(z)[t] * a[t];  entry = rope(rms(e) * norm)
 *
 * RoPE takes the position of the group's first token. An entry exists once its last token is
 * computed, and that token may read it. At ratio 4 of V4 entries overlap: value and gate have twice
 * the width, and e[j] also weighs the first halves of the tokens of group j-1, and of its own the
 * second ones. At ratio 1 there is no gate: e = a.
 *
 * The softmax runs online, token by token in order of positions. So an open group is three numbers
 * a channel, whatever its size, and no cut of a prompt into steps changes a bit.
 * Source: DeepSeek-V4, inference/model.py (Compressor).
 */
#pragma once

#include "compute/model/pass.h"

/* The open groups of some channels: largest z, sum of the exponentials, weighted sum of a. */
struct compressor_sum {
    float *largest, *sum, *weighted; /* each [count] */
};

/* Floats that a channel's open groups take: of the token's own group and, if entries overlap, of
 * the next one. */
static inline uint32_t compressor_sums(const struct shape *shape, uint32_t ratio) {
    if (ratio < 2) return 0;
    return shape->overlaps && ratio == 4 ? 6 : 3;
}

/* Empties a group, and adds a token to it. z: gate plus positions. */
void compressor_clear(struct compressor_sum sum, uint32_t count);
void compressor_add(struct compressor_sum sum, const float *a, const float *gate,
                    const float *positions, uint32_t count);

/* Which of a layer's compressors. */
enum compressor_kind { COMPRESS_ENTRIES, COMPRESS_INDEX_KEYS };

/* Adds the batch's tokens to the open groups of their slots. Their values and gates are in
 * scratch.pool_value and pool_gate (for index keys: index_pool_value, index_pool_gate). Where a
 * token completes a group, the first `width` channels of its value become e. */
void compressor_run(const struct pass *pass, enum compressor_kind which);
