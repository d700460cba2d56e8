/* SPDX-License-Identifier: Apache-2.0
 * Core attention of tokens that are decoded, absorbed form, over the pages of the latent cache, on
 * a GPU:
 *
 *   s[h][t] = scale * q[h] . row[t]                 over the row's latent and rotated key, in float
 *   p[h][t] = exp(s[h][t] - max over t)             rounded to BF16 where it weighs values
 *   y[h]    = sum over t of p[h][t] latent[t] / sum over t of p[h][t]
 *
 * Keys are taken in blocks of 64, in parts of 1,024, each of which has a maximum of its own; parts
 * are merged in ascending order. Blocks and parts are counted from key 0, so a token's result
 * depends on its own keys alone. Verified by emulation; not yet run on a GPU.
 */
#pragma once

#include "compute/kernels/cuda/live_rows.h"
#include "compute/kernels/cuda/tensor_map.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MLA_DECODE_PART 1024 /* keys */

/* The pages' memory: rows of BF16, 64 a slice, as contract/kv_block.h lays them out. */
struct mla_decode_pages {
    struct tensor_map map;
    uint32_t width, rank; /* of a row; of its latent, at most 512, a multiple of 8 */
};

/* Queries [token][head][width], the latent's part absorbed. */
struct mla_decode_queries {
    struct tensor_map map;
    uint32_t heads;
};

/* Token i sees keys [first[i], last[i]], of which key k lies in row k % 64 of page
 * pages[first_page[i] + k / 64]. */
struct mla_decode_tokens {
    const uint32_t *first, *last, *first_page, *pages;
    uint32_t count;
    struct live_rows live;
};

/* Everything lies in the device's memory; addresses and pitches (bytes) are multiples of 16. False:
 * they are not, or the kernel knows no such rank. */
bool mla_decode_make_pages(struct mla_decode_pages *pages_out, const void *first_slice,
                           uint64_t slice_pitch, uint64_t page_pitch, uint32_t slices,
                           uint32_t pages, uint32_t width, uint32_t rank);
bool mla_decode_make_queries(struct mla_decode_queries *queries_out, const uint16_t *queries,
                             uint32_t tokens, uint32_t heads, uint32_t width);

/* Floats of room to work in, for tokens with up to so many keys and latents of `rank`. */
size_t mla_decode_room(uint32_t rank, uint32_t tokens, uint32_t heads, uint32_t keys_max);

/* y[token][head][rank], rounded to BF16. `keys_max`: more than any token's last. */
void mla_decode_run(void *stream, const struct mla_decode_pages *pages, uint32_t slice,
                    const struct mla_decode_queries *queries,
                    const struct mla_decode_tokens *tokens, uint32_t keys_max, float scale,
                    float *room, uint16_t *y);

#ifdef __cplusplus
}
#endif
