/* SPDX-License-Identifier: Apache-2.0
 * Core attention of prompts' tokens, expanded form, over the pages of the latent cache, on a GPU:
 *
 *   s[h][i][t] = q_nope[h][i] . k[h][t] + q_rope[h][i] . k_rope[t]       in float
 *   p[h][i][t] = exp(scale * (s[h][i][t] - max over t so far))
 *                rounded to BF16 where it weighs values
 *   y[h][i]    = sum over t of p[h][i][t] v[h][t] / sum over t of p[h][i][t]
 *
 * Keys k and values v of a head are kv_b's product with a row's latent, rounded to BF16, which the
 * caller computes of what mla_prompt_take takes from the pages. Keys come in blocks of 128, counted
 * from key 0, ascending, and one maximum, one sum and one y go through them: a token's result
 * depends on its own keys alone.
 *
 * The keys of all runs have places, one run's behind another's. Each run's begin with its key 0 and
 * end at a multiple of MLA_PROMPT_TILE. As expanded keys are wide (64 KB each, of V3), a round
 * takes some of the places; what it leaves in y and marks, the next takes up, and no bit depends on
 * where rounds were cut. Verified by emulation; not yet run on a GPU.
 */
#pragma once

#include "compute/kernels/cuda/tensor_map.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MLA_PROMPT_TILE 128u /* tokens of a block of threads, and keys that it takes at once */

/* Tokens in rows [first, first + count). Their keys are those of the sequence up to their own,
 * except the first kv_first. Key k lies in row k % 64 of page pages[first_page + k / 64]. */
struct mla_prompt_run {
    uint32_t first, count, kv_first, first_page;
};

struct mla_prompt_runs {
    const struct mla_prompt_run *runs; /* none is without tokens */
    const uint32_t *kv_index;          /* each row's own key: one more from row to row of a run */
    const uint32_t *pages;
    uint32_t count;
};

/* The places of a round; both are multiples of MLA_PROMPT_TILE. */
struct mla_prompt_round {
    uint32_t first, count;
};

/* The pages' memory: rows of BF16, `rank` channels of the latent, then `rope` of the rotated key.
 * */
struct mla_prompt_rows {
    const char *memory;
    size_t page_bytes, slice_at, row_bytes; /* multiples of 16 */
    uint32_t rank, rope;                    /* multiples of 8 */
};

/* Fills the rows at the round's places, from row 0 on: latents [rank], as floats or, if that is
 * NULL, as they are in `rounded`, and rotated keys [rope]. Places without a key get zeros. */
void mla_prompt_take(void *stream, const struct mla_prompt_runs *runs,
                     const struct mla_prompt_rows *rows, const struct mla_prompt_round *round,
                     float *latents, uint16_t *rounded, uint16_t *tails);

struct mla_prompt_heads {
    uint32_t heads, nope, rope, value; /* multiples of 8; nope and value 128 at most, rope 64 */
    float scale;                       /* of scores */
};

struct mla_prompt_maps {
    struct tensor_map q_nope, q_rope, k_nope, k_rope, values;
    struct mla_prompt_heads of;
};

/* Where the attention's operands lie, all BF16: queries [rows][heads][nope + rope], rows `pitch`
 * bytes apart; of the round's places, from row 0 on, `expanded` [places][heads][nope + value] and
 * tails [places][rope]. Addresses and pitches are multiples of 16. False: they are not, or the
 * kernel knows no such head. */
bool mla_prompt_make(struct mla_prompt_maps *maps_out, const struct mla_prompt_heads *of,
                     const uint16_t *queries, uint64_t pitch, uint32_t rows,
                     const uint16_t *expanded, const uint16_t *tails, uint32_t places);

/* y[row][head][value] goes on with the keys of the round. `tiles`: of all runs, each one's tokens
 * in tiles of MLA_PROMPT_TILE. marks: floats [row][head][2], from round to round. */
void mla_prompt_attend(void *stream, const struct mla_prompt_maps *maps,
                       const struct mla_prompt_runs *runs, const struct mla_prompt_round *round,
                       uint32_t tiles, float *marks, float *y);

#ifdef __cplusplus
}
#endif
