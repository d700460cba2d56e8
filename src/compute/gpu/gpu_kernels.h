/* SPDX-License-Identifier: Apache-2.0
 * The kernels that a device's engine launches, as a table: each with its arguments, which begin
 * with pointers to the device's memory (compute/device/device.h). A row is a token or a (token,
 * expert) pair; what a row gets depends on nothing but that row, never on how many there are.
 *
 * `live`, where an entry has it, points to how many of the micro-batch's tokens are there, and
 * `rows` says how many there may be: so a graph's launches hold for any step of no more. Rows
 * beyond are left alone. NULL: all are there. `live_each`: rows for each token; live_before: rows
 * of the micro-batch before the first.
 *
 * Rows that a product takes ("prepared") are of a form: F32 or BF16, `pitch` bytes apart, or E4M3
 * codes with one scale for 128 channels, the scales block by block: [ceil(n / 128)][scale_stride].
 *
 * gpu_hopper launches kernels of compute/kernels/cuda: verified by emulation; not yet run on a GPU.
 * Tests have a second table, gpu_reference (compute/emulated): a plain body for each kernel, of the
 * CPU's arithmetic.
 */
#ifndef COMPUTE_GPU_GPU_KERNELS_H
#define COMPUTE_GPU_GPU_KERNELS_H

#include "compute/device/device.h"
#include "compute/kernels/draw_rule.h"
#include "compute/kernels/matmul.h"
#include "compute/model/linear.h"
#include "compute/weights/shape.h"

/* How rows lie; `kind`: INPUT_F32, INPUT_BF16, or codes with the two kinds of scales. */
struct gpu_form {
    enum input_kind kind;
    uint32_t pitch;        /* bytes */
    uint32_t scale_stride; /* floats */
};

/* x[row] = the embedding's row ids[row], as floats. */
struct gpu_embed {
    float *x;
    const void *embedding;
    const float *embedding_scales; /* or NULL */
    const uint32_t *ids;
    const uint32_t *live;
    struct packed_matrix form; /* without pointers */
    uint32_t x_stride, rows;
};

/* Row of x, normalized if `weight` is not NULL, to up to three places: in two forms, and plain. */
struct gpu_prepare {
    const float *x;
    const float *weight; /* rmsnorm's */
    void *first;
    float *first_scales;
    void *second; /* or NULL */
    float *second_scales;
    float *plain; /* or NULL; may be x */
    const uint32_t *live;
    struct gpu_form first_form, second_form;
    uint32_t x_stride, plain_stride, n, rows;
    float epsilon;
};

/* y[row] = W x[row]; by groups: W of the group's slot; slots lie slot_bytes apart. */
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
    const uint32_t *live;           /* without groups, which say it themselves */
    struct gpu_form form;
    struct packed_matrix matrix; /* without pointers */
    size_t slot_bytes;
    uint32_t y_stride, rows;          /* by groups: of all groups, from row 0 on, at most so many */
    uint32_t group_count, slot_count; /* groups' slots are below it */
};

/* silu(gate) * up, prepared. */
struct gpu_activate {
    const float *gate;
    const float *up;
    void *to;
    float *to_scales;
    const uint32_t *live;
    struct gpu_form form;
    uint32_t stride, n, rows, live_each;
};

/* y = y + x. */
struct gpu_add {
    float *y;
    const float *x;
    const uint32_t *live;
    uint32_t y_stride, x_stride, n, rows;
};

/* Where KV rows are: of token i, row kv_index[i] % 64 of page pages[first_page[i] + kv_index[i] /
 * 64]. */
struct gpu_kv_form {
    size_t page_bytes, slice_at, row_bytes; /* slice_at: of the layer, in a page */
    uint32_t width, page_count, is_bf16;
};

/* The KV row of each token: its latent normalized, its key rotated. */
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
    struct gpu_kv_form kv;
    uint32_t stride, rows, kv_rank, rope_dim, interleaved;
    float epsilon;
};

/* Queries [heads][nope + rope], their last rope channels rotated, F32 or BF16. */
struct gpu_queries {
    const float *q;
    const float *angles;
    const uint32_t *positions;
    void *to;
    const uint32_t *live;
    uint32_t stride, rows, heads, nope_dim, rope_dim, interleaved;
    uint32_t is_bf16, to_pitch;
};

/* kv_b's rows of a head are nope_dim for keys, then value_dim for values; each [kv_rank]. */
struct gpu_heads {
    uint32_t heads, nope_dim, rope_dim, value_dim, kv_rank;
    uint32_t is_bf16; /* of queries and of what lies between the products */
    float scale;      /* of scores */
};

/* Absorbed form: q'[h] = W_k[h]^T q_nope[h], then the rope part: [heads][kv_rank + rope_dim]. */
struct gpu_absorb {
    const void *queries;
    const void *kv_b;
    const float *kv_b_scales;
    void *to;
    const uint32_t *live;
    struct packed_matrix matrix; /* kv_b's, without pointers */
    struct gpu_heads of;
    uint32_t queries_pitch, to_pitch, rows, live_before;
};
/* The core: u[h] = sum of softmax(scale q'[h] . row[t]) c[t] over the KV rows t of the token. */
struct gpu_core {
    const void *absorbed;
    const uint32_t *kv_index;
    const uint32_t *kv_first; /* rows before it are none */
    const uint32_t *first_page;
    const uint32_t *pages;
    const char *memory;
    void *to;    /* [heads][kv_rank] */
    float *room; /* what core_room asks for, or NULL */
    const uint32_t *live;
    struct gpu_kv_form kv;
    struct gpu_heads of;
    uint32_t absorbed_pitch, to_pitch, rows, live_before;
    uint32_t keys_max; /* no token sees more KV rows, those before kv_first included */
};
/* o[h] = W_v[h] u[h]: attended[heads][value_dim]. */
struct gpu_release {
    const void *u;
    const void *kv_b;
    const float *kv_b_scales;
    float *attended;
    const uint32_t *live;
    struct packed_matrix matrix;
    struct gpu_heads of;
    uint32_t u_pitch, rows, live_before;
};

/* Expanded form, for tokens of prompts: a run of a micro-batch. */
#define GPU_PROMPT_TILE 128 /* tokens, and keys, that a kernel takes at a time */
struct gpu_run {
    uint32_t first, count; /* rows */
    uint32_t kv_first;     /* KV rows before it are none */
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
    char *room; /* what prompt_room asks for, or NULL */
    struct packed_matrix matrix;
    struct gpu_kv_form kv;
    struct gpu_heads of;
    enum input_kind latents; /* how kv_b takes them */
    uint32_t queries_pitch, run_count;
    uint32_t rows;                   /* all runs' are among the first so many */
    uint32_t query_tiles, key_tiles; /* of all runs, each one's rounded up */
    uint32_t room_rows, room_keys;   /* that the room is for */
};

/* Each token's experts, ascending, and their weights. */
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

/* Pairs by expert, ascending, tokens ascending within one: where each lies, and the groups. */
struct gpu_sort {
    const uint32_t *experts;  /* [tokens][per_token] */
    uint32_t *pair_row;       /* [tokens][per_token] */
    uint32_t *row_token;      /* [tokens * per_token] */
    struct gpu_group *groups; /* [slots] */
    uint32_t *slot_tokens;    /* [slots] += */
    const uint32_t *live;
    uint32_t tokens, per_token, slots;
};

/* Prepared row `row_token[row]` becomes row `row`; NULL: the row of the same number. Between two
 * rows' scales are `scale_step` floats: 1, or a row's, if scales stand behind their row's codes as
 * an exchange carries them (compute/model/exchange_rows.h; its form has scale_stride 1). */
struct gpu_gather {
    const void *from;
    const float *from_scales;
    const uint32_t *row_token; /* or NULL */
    void *to;
    float *to_scales;
    const uint32_t *live;
    /* [rows] or NULL: where each row lies, instead of `from`, or goes, instead of `to`, perhaps in
     * other devices' memory; the scales of one that lies apart stand in it, scales_at bytes from
     * its begin. */
    const char *const *from_rows;
    char *const *to_rows;
    struct gpu_form from_form, to_form;
    uint32_t n, rows, live_each, from_scale_step, to_scale_step, scales_at;
};

/* A token's results, F32 or BF16, rounded to BF16 with rounds_bf16, times their weights, summed in
 * the order of compute/model/expert_sum.h. */
#define GPU_SUMMED UINT32_MAX /* of a pair: it is in the row of the pair before, a group's sum */
#define GPU_NO_PAIR (UINT32_MAX - 1) /* there is no such pair */
struct gpu_combine {
    const void *results;
    const uint32_t *pair_row; /* [tokens][per_token] */
    const uint32_t *experts;  /* [tokens][per_token]; NULL: all are of one group */
    const float *weights;
    float *y;
    const uint32_t *live;
    uint32_t pitch; /* bytes between two results */
    uint32_t y_stride, n, tokens, per_token, group_experts, is_bf16, rounds_bf16;
};

/* The token that each row's rule draws from its n logits: that of sample_draw
 * (compute/model/sample.h). */
struct gpu_draw {
    const float *logits;
    const struct draw_rule *rules; /* [rows] or NULL: the likeliest */
    uint32_t *to;
    uint32_t stride, n, rows;
};

/* MTP: pair = rmsnorm(E[ids[row]]) | rmsnorm(h), h = outputs' row `source[row]`: of the step below
 * 2^31, else of those kept. */
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
    struct packed_matrix form;
    uint32_t n, rows;
    float epsilon;
};

struct model; /* compute/model/model_state.h */

/* Each kernel, and how many pointers its arguments begin with. */
#define GPU_KERNELS(of)                                                                            \
    of(embed, 5) of(prepare, 8) of(product, 7) of(activate, 5) of(add, 3) of(latent, 9)            \
        of(queries, 5) of(absorb, 5) of(core, 9) of(release, 5) of(prompt, 9) of(route, 5)         \
            of(sort, 6) of(gather, 8) of(combine, 6) of(draw, 3) of(pair, 9)
#define GPU_KERNEL_MEMBER(kernel, pointer_count) struct device_kernel kernel;

struct gpu_kernels {
    const char *numerics;             /* kernels with the same text give the same bits */
    const struct device_watch *watch; /* what emulates them wants to know the memory; or NULL */
    bool kv_b_bf16; /* a kv_b of FP8 comes in BF16 where its input is not quantized */
    /* STATUS_UNSUPPORTED: a part of the model has no kernel; its shape and modes are set. `mtp`:
     * its MTP layer is wanted, too. NULL: all parts have one. */
    enum status (*takes)(const struct model *model, bool mtp, struct error *error);
    /* Floats that core works in, for so many tokens; NULL: none. */
    size_t (*core_room)(const struct gpu_heads *of, uint32_t tokens, uint32_t keys_max);
    /* Bytes that prompt works in, for tokens in so many rows and so many keys at a time, a multiple
     * of GPU_PROMPT_TILE; NULL: none. */
    size_t (*prompt_room)(const struct gpu_heads *of, uint32_t rows, uint32_t keys);
    GPU_KERNELS(GPU_KERNEL_MEMBER)
};

/* A library of its own, built for a GPU (gpu_hopper_cuda_dep) and for the emulator
 * (gpu_hopper_dep): both define these names. */
extern const struct gpu_kernels gpu_hopper;
/* Its `takes`. */
enum status gpu_hopper_limits_takes(const struct model *model, bool mtp, struct error *error);

#endif
