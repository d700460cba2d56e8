/* SPDX-License-Identifier: Apache-2.0
 * Kernels on rows of values, on a GPU: norm, activation, sums, each of which also leaves its rows
 * as the next product takes them. From equal inputs they give the bits of their twins
 * (compute/kernels/kernels.h, compute/model/rope.h, compute/model/router.h). Verified by emulation;
 * not yet run on a GPU.
 *
 * Rows lie in the device's memory, `stride` elements apart. `live` NULL: all are there. Row
 * addresses of floats are multiples of 16 bytes, of BF16 of 8, of codes of 4.
 */
#pragma once

#include "compute/kernels/cuda/live_rows.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where rows go: any of these that is not NULL. */
struct row_output {
    float *values;
    size_t value_stride;
    uint16_t *rounded; /* to BF16 */
    size_t rounded_stride;
    uint8_t *codes; /* quantize_e4m3: E4M3 in groups of 128 channels */
    size_t code_stride;
    float *scales; /* [group][scale_stride], a column for each row: as fp8_gemm.h wants them */
    size_t scale_stride;
    bool scale_power_of_two;
};

#define ROW_OUTPUTS 3 /* of a norm: for two products, and as it is */

/* x = x + add, unless add is NULL; then rmsnorm of x with the weight [n], to all outputs. n <=
 * 49,152. */
void row_kernels_norm(void *stream, float *x, size_t x_stride, const float *add, size_t add_stride,
                      const float *weight, float epsilon,
                      const struct row_output outputs[ROW_OUTPUTS], uint32_t rows, uint32_t n,
                      const struct live_rows *live);

/* silu_multiply of gate and up. */
void row_kernels_activate(void *stream, const float *gate, const float *up, size_t stride,
                          const struct row_output *output, uint32_t rows, uint32_t n,
                          const struct live_rows *live);

/* The values as they are. */
void row_kernels_prepare(void *stream, const float *x, size_t stride,
                         const struct row_output *output, uint32_t rows, uint32_t n,
                         const struct live_rows *live);

/* y = y + a * x by fma. */
void row_kernels_add(void *stream, float *y, size_t y_stride, const float *x, size_t x_stride,
                     float a, uint32_t rows, uint32_t n, const struct live_rows *live);

/* A row of BF16 or F32 becomes floats: row `ids[row]` of a table with rows table_stride elements
 * apart. Exactly one of the tables is not NULL. */
void row_kernels_look_up(void *stream, const uint16_t *table_bf16, const float *table_f32,
                         size_t table_stride, const uint32_t *ids, float *y, size_t y_stride,
                         uint32_t rows, uint32_t n, const struct live_rows *live);

/* The same from one of two tables of F32: from `other` where the id has bit 31. */
void row_kernels_pick(void *stream, const float *table, const float *other, size_t table_stride,
                      const uint32_t *ids, float *y, size_t y_stride, uint32_t rows, uint32_t n);

/* Rows of bytes, and their scales if `groups` is not 0. Addresses and pitches are multiples of 16,
 * but for scales, which lie `stride` floats apart from group to group and `step` from row to row:
 * step 1 as row_output has them, stride 1 where a row's scales stand in the row itself, behind its
 * codes. */
struct row_gather {
    const void *from;
    void *to;
    size_t from_pitch, to_pitch; /* bytes */
    const float *from_scales;
    float *to_scales;
    size_t from_scale_stride, to_scale_stride, from_scale_step, to_scale_step;
    const uint32_t *ids; /* NULL: each row's own number */
    /* Rows may lie apart: where each is, instead of `from` or `to`; its scales stand in it,
     * scales_at bytes from its begin. NULL: they lie as above. */
    const char *const *from_rows;
    char *const *to_rows; /* without scales */
    uint32_t scales_at;
    uint32_t bytes, groups; /* of a row */
    struct live_rows live;
};
/* Row ids[row] becomes row `row`. */
void row_kernels_gather(void *stream, const struct row_gather *of, uint32_t rows);

#define ROW_SUMMED UINT32_MAX        /* a result that is in the row before it, a sum of its group */
#define ROW_NO_PAIR (UINT32_MAX - 1) /* there is no such result */

/* Results of experts: row `row` has those in rows pair_row[row][0], ... of `results`, which are F32
 * or BF16 and `pitch` bytes apart, a multiple of 16. */
struct row_results {
    const void *results;
    size_t pitch;
    const uint32_t *pair_row; /* [rows][per_token] */
    const uint32_t *experts;  /* [rows][per_token], ascending; NULL: all are of one group */
    const float *weights;     /* [rows][per_token] */
    uint32_t per_token, group_experts; /* so many experts in a row are a group; 0: there is none */
    bool is_bf16, rounds_bf16;
    struct live_rows live;
};
/* y = their weighted sum, in the order of compute/model/expert_sum.h. */
void row_kernels_combine(void *stream, const struct row_results *of, float *y, size_t y_stride,
                         uint32_t rows, uint32_t n);

#ifdef __cplusplus
}
#endif
