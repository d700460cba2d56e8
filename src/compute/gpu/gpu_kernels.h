/* SPDX-License-Identifier: Apache-2.0
 * The table of kernels that the engine launches on a device, with the arguments of each. Arguments
 * begin with pointers to device memory (compute/device/device.h). A row is a token or a (token,
 * expert) pair. The result of a row depends on that row alone, not on the number of rows.
 *
 * `rows` is the largest number of rows that a launch may have. `live` points to the actual number
 * of the micro-batch's tokens in device memory, so a captured launch serves any step with no more
 * rows; rows beyond it are not touched. NULL: all rows are live. `live_each` is the number of rows
 * per token, and `live_before` the number of the micro-batch's rows before the first.
 *
 * A "prepared" row is the input of a product. Its format is F32 or BF16 with `pitch` bytes from row
 * to row, or E4M3 codes with one scale for each 128 channels. Scales are stored block by block:
 * [ceil(n / 128)][scale_stride].
 *
 * There are two tables. gpu_hopper launches the kernels of compute/kernels/cuda; it is verified by
 * emulation and has not yet run on a GPU. gpu_reference (compute/emulated), for tests, has a plain
 * loop with the CPU's arithmetic for each kernel.
 */
#pragma once

#include "compute/device/device.h"
#include "compute/kernels/draw_rule.h"
#include "compute/kernels/matmul.h"
#include "compute/model/linear.h"
#include "compute/weights/shape.h"

/* The format of prepared rows. `kind` is INPUT_F32, INPUT_BF16, or one of the two kinds of codes
 * with scales. */
struct gpu_row_format {
    enum input_kind kind;
    uint32_t pitch;        /* bytes */
    uint32_t scale_stride; /* floats */
};

/* x[row] = the embedding row ids[row], as floats. */
struct gpu_embed {
    float *x;
    const void *embedding;
    const float *embedding_scales; /* or NULL */
    const uint32_t *ids;
    const uint32_t *live;
    struct packed_matrix format; /* without pointers */
    uint32_t x_stride, rows;
};

/* Prepares rows of x, normalized if `weight` is not NULL, for up to three outputs: two formats, and
 * plain floats. */
struct gpu_prepare {
    const float *x;
    const float *weight; /* of RMSNorm */
    void *first;
    float *first_scales;
    void *second; /* or NULL */
    float *second_scales;
    float *plain; /* or NULL; may be x */
    const uint32_t *live;
    struct gpu_row_format first_format, second_format;
    uint32_t x_stride, plain_stride, n, rows;
    float epsilon;
};

/* y[row] = W x[row]. With groups, each group of rows has the W of its slot; slots are slot_bytes
 * apart. */
struct gpu_group {
    uint32_t first_row, row_count, slot;
};
struct gpu_product {
    const void *x;
    const float *x_scales;
    const void *weights;
    const float *weight_scales;
    float *y;
    const struct gpu_group *groups; /* [group_count], or NULL: all rows, one matrix */
    const uint32_t *live;           /* only without groups; groups contain their own row counts */
    struct gpu_row_format format;
    struct packed_matrix matrix; /* without pointers */
    size_t slot_bytes;
    uint32_t y_stride, rows; /* with groups: the most rows of all groups together, from row 0 on */
    uint32_t group_count, slot_count; /* every group's slot is below it */
};

/* Prepares rows of silu(gate) * up. */
struct gpu_activate {
    const float *gate;
    const float *up;
    void *to;
    float *to_scales;
    const uint32_t *live;
    struct gpu_row_format format;
    uint32_t stride, n, rows, live_each;
};

/* y = y + x. */
struct gpu_add {
    float *y;
    const float *x;
    const uint32_t *live;
    uint32_t y_stride, x_stride, n, rows;
};

/* The layout of KV pages. The KV row of token i is row kv_index[i] % 64 of page pages[first_page[i]
 * + kv_index[i] / 64]. */
struct gpu_kv_layout {
    size_t page_bytes, slice_at, row_bytes; /* slice_at: offset of the layer's slice in a page */
    uint32_t width, page_count, is_bf16;
};

/* Writes the KV row of each token: the normalized latent and the rotated key. */
struct gpu_latent {
    const float *kv_a;
    const float *weight;
    const float *angles; /* [positions][rope_dim] */
    const uint32_t *positions;
    const uint32_t *kv_index;
    const uint32_t *first_page;
    const uint32_t *pages;
    char *memory;
    const uint32_t *live;
    struct gpu_kv_layout kv;
    uint32_t stride, rows, kv_rank, rope_dim, interleaved;
    float epsilon;
};

/* Queries [heads][nope + rope] in F32 or BF16, with the last `rope` channels rotated. */
struct gpu_queries {
    const float *q;
    const float *angles;
    const uint32_t *positions;
    void *to;
    const uint32_t *live;
    uint32_t stride, rows, heads, nope_dim, rope_dim, interleaved;
    uint32_t is_bf16, to_pitch;
};

/* Dimensions of attention. kv_b has for each head nope_dim rows for keys, then value_dim rows for
 * values, each [kv_rank]. */
struct gpu_heads {
    uint32_t heads, nope_dim, rope_dim, value_dim, kv_rank;
    uint32_t is_bf16; /* of queries and of the values between the products */
    float scale;      /* factor of the scores */
};

/* Absorbed attention, first product: q'[h] = W_k[h]^T q_nope[h], followed by the rope part:
 * [heads][kv_rank + rope_dim]. */
struct gpu_absorb {
    const void *queries;
    const void *kv_b;
    const float *kv_b_scales;
    void *to;
    const uint32_t *live;
    struct packed_matrix matrix; /* kv_b's, without pointers */
    struct gpu_heads heads;
    uint32_t queries_pitch, to_pitch, rows, live_before;
};
/* Absorbed attention, the core: u[h] = sum over the token's KV rows t of softmax(scale q'[h] .
 * row[t]) c[t]. */
struct gpu_core {
    const void *absorbed;
    const uint32_t *kv_index;
    const uint32_t *kv_first; /* the first KV row of the token */
    const uint32_t *first_page;
    const uint32_t *pages;
    const char *memory;
    void *to;         /* [heads][kv_rank] */
    float *workspace; /* memory of core_workspace floats, or NULL */
    const uint32_t *live;
    struct gpu_kv_layout kv;
    struct gpu_heads heads;
    uint32_t absorbed_pitch, to_pitch, rows, live_before;
    uint32_t keys_max; /* upper bound of KV row indices that any token attends to */
};
/* Absorbed attention, last product: o[h] = W_v[h] u[h], to attended [heads][value_dim]. */
struct gpu_release {
    const void *u;
    const void *kv_b;
    const float *kv_b_scales;
    float *attended;
    const uint32_t *live;
    struct packed_matrix matrix;
    struct gpu_heads heads;
    uint32_t u_pitch, rows, live_before;
};

/* Expanded attention, for prompt tokens: a run of consecutive tokens of a micro-batch. */
#define GPU_PROMPT_TILE 128 /* tokens, and keys, in a kernel's tile */
struct gpu_run {
    uint32_t first, count; /* rows */
    uint32_t kv_first;     /* the first KV row of the run */
    uint32_t first_page;
};
struct gpu_prompt {
    const void *queries;
    const void *kv_b;
    const float *kv_b_scales;
    const uint32_t *kv_index; /* of each row */
    const struct gpu_run *runs;
    const uint32_t *pages;
    const char *memory;
    float *attended;
    char *workspace; /* memory of prompt_workspace bytes, or NULL */
    struct packed_matrix matrix;
    struct gpu_kv_layout kv;
    struct gpu_heads heads;
    enum input_kind latents; /* the format of latents as kv_b's input */
    uint32_t queries_pitch, run_count;
    uint32_t rows;                           /* the rows of all runs are below it */
    uint32_t query_tiles, key_tiles;         /* over all runs, each rounded up */
    uint32_t workspace_rows, workspace_keys; /* for which the workspace was allocated */
};

/* Chooses each token's experts, ascending, and their weights. */
struct gpu_route {
    const float *logits;
    const float *bias; /* or NULL */
    uint32_t *experts;
    float *weights;
    const uint32_t *live;
    uint32_t stride, rows, experts_all, per_token;
    uint32_t groups, groups_kept, scoring, method, normalizes;
    float scaling;
};

/* Sorts pairs by expert, then by token: the row of each pair, the token of each row, and the
 * groups. */
struct gpu_sort {
    const uint32_t *experts;  /* [tokens][per_token] */
    uint32_t *pair_row;       /* [tokens][per_token] */
    uint32_t *row_token;      /* [tokens * per_token] */
    struct gpu_group *groups; /* [slots] */
    uint32_t *slot_tokens;    /* [slots] counts are added to it */
    const uint32_t *live;
    uint32_t tokens, per_token, slots;
};

/* Copies prepared rows: output row i = input row row_token[i], or input row i if row_token is NULL.
 * From one row to the next, scales are scale_step floats apart. That is 1, or a row's length if
 * each row's scales follow its codes as in an exchange (compute/model/exchange_rows.h; its
 * scale_stride is 1). */
struct gpu_gather {
    const void *from;
    const float *from_scales;
    const uint32_t *row_token; /* or NULL */
    void *to;
    float *to_scales;
    const uint32_t *live;
    /* [rows] or NULL: addresses of input rows instead of `from`, or of output rows instead of `to`,
     * possibly in another device's memory. Such a row contains its scales, scales_at bytes from its
     * begin. */
    const char *const *from_rows;
    char *const *to_rows;
    struct gpu_row_format from_format, to_format;
    uint32_t n, rows, live_each, from_scale_step, to_scale_step, scales_at;
};

/* Weighted sums of a token's results (F32 or BF16; rounded to BF16 if rounds_bf16) in the order of
 * compute/model/expert_sum.h. */
#define GPU_SUMMED UINT32_MAX /* of a pair: included in the previous pair's row, a group's sum */
#define GPU_NO_PAIR (UINT32_MAX - 1) /* of a pair: it has no result */
struct gpu_combine {
    const void *results;
    const uint32_t *pair_row; /* [tokens][per_token] */
    const uint32_t *experts;  /* [tokens][per_token]; NULL: all experts are of one group */
    const float *weights;
    float *y;
    const uint32_t *live;
    uint32_t pitch; /* bytes from result to result */
    uint32_t y_stride, n, tokens, per_token, group_experts, is_bf16, rounds_bf16;
};

/* Draws a token from the n logits of each row by the row's rule, as sample_draw does
 * (compute/model/sample.h). */
struct gpu_draw {
    const float *logits;
    const struct draw_rule *rules; /* [rows] or NULL: the largest logit */
    uint32_t *to;
    uint32_t stride, n, rows;
};

/* MTP's input: pair = rmsnorm(E[ids[row]]) | rmsnorm(h). h is an output of the step with index
 * source[row], or with the flag GPU_KEPT one of the stored outputs. */
#define GPU_KEPT UINT32_C(0x80000000)
struct gpu_mtp_pair {
    float *pair;
    const void *embedding;
    const float *embedding_scales;
    const float *embedding_norm;
    const float *hidden_norm;
    const float *hidden;
    const float *kept;
    const uint32_t *ids;
    const uint32_t *source;
    struct packed_matrix format;
    uint32_t n, rows;
    float epsilon;
};

struct model; /* compute/model/model_state.h */

/* Each kernel, and the number of pointers at the begin of its arguments. */
#define GPU_KERNELS(of)                                                                            \
    of(embed, 5) of(prepare, 8) of(product, 7) of(activate, 5) of(add, 3) of(latent, 9)            \
        of(queries, 5) of(absorb, 5) of(core, 9) of(release, 5) of(prompt, 9) of(route, 5)         \
            of(sort, 6) of(gather, 8) of(combine, 6) of(draw, 3) of(pair, 9)
#define GPU_KERNEL_MEMBER(kernel, pointer_count) struct device_kernel kernel;

struct gpu_kernels {
    const char *numerics;             /* kernels with the same name compute the same bits */
    const struct device_watch *watch; /* receives allocations, for an emulator; or NULL */
    bool kv_b_bf16; /* convert a kv_b of FP8 to BF16 if its input is not quantized */
    /* STATUS_UNSUPPORTED: a part of the model has no kernel. The model's shape and modes are set.
     * `mtp`: include the MTP layer. NULL: every model is supported. */
    enum status (*takes)(const struct model *model, bool mtp, struct error *error);
    /* Floats of workspace for `core`, for this many tokens; NULL: none. */
    size_t (*core_workspace)(const struct gpu_heads *of, uint32_t tokens, uint32_t keys_max);
    /* Bytes of workspace for `prompt`, for this many rows of tokens, and keys in a tile of a
     * multiple of GPU_PROMPT_TILE; NULL: none. */
    size_t (*prompt_workspace)(const struct gpu_heads *of, uint32_t rows, uint32_t keys);
    GPU_KERNELS(GPU_KERNEL_MEMBER)
};

/* Built twice: for a GPU (gpu_hopper_cuda_dep) and for the emulator (gpu_hopper_dep). */
extern const struct gpu_kernels gpu_hopper;
/* The function `takes` of gpu_hopper. */
enum status gpu_hopper_limits_takes(const struct model *model, bool mtp, struct error *error);
