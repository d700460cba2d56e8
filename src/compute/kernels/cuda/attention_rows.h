/* SPDX-License-Identifier: Apache-2.0
 * What stands around attention, on a GPU: the rows of the latent cache, and queries with their
 * rotated part. From equal inputs they give the bits of their twins (compute/model/rope.h and
 * rmsnorm of compute/kernels/kernels.h). Verified by emulation; not yet run on a GPU.
 *
 * Everything lies in the device's memory. Angles are rope_prepare's: [position][rope], cosines
 * first.
 */
#pragma once

#include "compute/kernels/cuda/live_rows.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first `rank` channels of a row of kv_a normalized, the next `rope` rotated, as F32 or BF16.
 * Row i goes to row kv_index[i] % 64 of the slice at slice_at of page pages[first_page[i] +
 * kv_index[i] / 64]. rank + rope <= 49,152. */
struct attention_latents {
    const float *kv_a;
    size_t stride; /* floats */
    const float *weight, *angles;
    const uint32_t *positions, *kv_index, *first_page, *pages;
    char *memory;
    size_t page_bytes, slice_at, row_bytes;
    uint32_t rank, rope;
    float epsilon;
    bool interleaved, is_bf16;
    struct live_rows live;
};
void attention_rows_write(void *stream, const struct attention_latents *of, uint32_t rows);

/* Queries [heads][nope + rope], the last `rope` channels of each rotated, to rows of F32 or
 * BF16. */
struct attention_queries {
    const float *q;
    size_t stride; /* floats */
    const float *angles;
    const uint32_t *positions;
    char *to;
    size_t to_pitch; /* bytes */
    uint32_t heads, nope, rope;
    bool interleaved, is_bf16;
    struct live_rows live;
};
void attention_rows_rotate(void *stream, const struct attention_queries *of, uint32_t rows);

/* The rotated part of queries [heads][nope + rope] of BF16, behind the latents' part of absorbed
 * queries
 * [heads][rank + rope]. Strides in elements. */
struct attention_tails {
    const uint16_t *queries;
    size_t stride;
    uint16_t *to;
    size_t to_stride;
    uint32_t heads, nope, rope, rank;
    struct live_rows live;
};
void attention_rows_copy_tails(void *stream, const struct attention_tails *of, uint32_t rows);

#ifdef __cplusplus
}
#endif
