/* SPDX-License-Identifier: Apache-2.0
 * Attention in floats, on a GPU, for the modes that round nothing: the halves of kv_b, the core of
 * generated tokens, absorbed, and that of prompts' tokens, expanded. From equal inputs all have the
 * bits of the CPU's plain arithmetic: products as compute/kernels/matmul.h, and
 *
 *   over blocks of 64 keys, counted from key 0, ascending:
 *     s[t] = fma(q[c], k[t][c], s[t]) over the channels c, ascending, from +0
 *     p[t] = exp(fma(s[t], scale, -(maximum so far * scale)))
 *     sum  = sum * factor + (the block's p in 16 lanes, then halves);
 *            factor = exp((maximum before - now) * scale)
 *     y[c] = fma(p[t], v[t][c], y[c]) over t, from y[c] * factor
 *   y * (1 / sum)
 *
 * They are simple rather than quick: a block of threads takes a head of a token. For goldens on a
 * GPU, and to see what rounding costs. Verified by emulation; not yet run on a GPU.
 */
#pragma once

#include "compute/kernels/cuda/float_gemm.h"
#include "compute/kernels/cuda/mla_prompt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* kv_b: rows of a head are `nope` for keys, then `value` for values, each [rank]. */
struct mla_float_heads {
    const void *kv_b;
    const float *scales; /* of E4M3: [ceil(all rows / 128)][ceil(rank / 128)]; else NULL */
    enum float_gemm_type type;
    size_t pitch; /* bytes */
    uint32_t heads, nope, rope, value, rank;
};

/* Rows of heads, all floats: a row of x is [heads][...] and begins x_stride floats behind the one
 * before; y likewise. */
struct mla_float_rows {
    const float *x;
    float *y;
    size_t x_stride, y_stride;
    uint32_t rows;
    struct live_rows live;
};

/* For x = queries [heads][nope + rope]: y[h] = W_k[h]^T x[h], then the rotated part: [heads][rank +
 * rope]. If the rows of codes straddle blocks of 128, they are multiplied by their scales first. */
void mla_float_absorb(void *stream, const struct mla_float_heads *heads,
                      const struct mla_float_rows *rows);
/* For x [heads][rank]: y[h] = W_v[h] x[h]: [heads][value]. */
void mla_float_release(void *stream, const struct mla_float_heads *heads,
                       const struct mla_float_rows *rows);

/* Token i sees keys [first[i], last[i]], of which key k is row k % 64 of the slice at slice_at of
 * page pages[first_page[i] + k / 64]: floats [rank + rope]. */
struct mla_float_keys {
    const uint32_t *first, *last, *first_page, *pages;
    const char *memory;
    size_t page_bytes, slice_at, row_bytes;
    uint32_t heads, rank, rope;
    float scale;
};
/* For x = absorbed queries [heads][rank + rope]: the core, y [heads][rank]. */
void mla_float_decode(void *stream, const struct mla_float_keys *keys,
                      const struct mla_float_rows *rows);

/* Like mla_prompt_take, for rows of floats at offsets that are multiples of 4: latents [rank],
 * tails [rope]. */
void mla_float_take(void *stream, const struct mla_prompt_runs *runs,
                    const struct mla_prompt_rows *rows, const struct mla_prompt_round *round,
                    float *latents, float *tails);

/* mla_prompt_attend for floats: queries [rows][heads][nope + rope], `stride` floats apart, and the
 * round's places: `expanded` [places][heads][nope + value] and tails [places][rope]. Only the rows
 * of runs are computed. */
struct mla_float_prompt {
    const float *queries, *expanded, *tails;
    float *marks; /* [rows][heads][2], from round to round */
    float *y;     /* [rows][heads][value] */
    size_t stride;
    uint32_t heads, nope, rope, value;
    float scale;
};
void mla_float_attend(void *stream, const struct mla_float_prompt *of,
                      const struct mla_prompt_runs *runs, const struct mla_prompt_round *round,
                      uint32_t rows);

#ifdef __cplusplus
}
#endif
