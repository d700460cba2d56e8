/* SPDX-License-Identifier: Apache-2.0
 * The table of kernels for Hopper: turns the arguments of each entry into launches of
 * compute/kernels/cuda. Models without a kernel were rejected by gpu_hopper_limits. Verified by
 * emulation; not yet run on a GPU.
 */
#include "compute/gpu/gpu_kernels.h"
#include "compute/kernels/cuda/attention_rows.h"
#include "compute/kernels/cuda/bf16_gemm.h"
#include "compute/kernels/cuda/choice_kernels.h"
#include "compute/kernels/cuda/draw_kernels.h"
#include "compute/kernels/cuda/float_gemm.h"
#include "compute/kernels/cuda/fp8_gemm.h"
#include "compute/kernels/cuda/mla_decode.h"
#include "compute/kernels/cuda/mla_float.h"
#include "compute/kernels/cuda/mla_prompt.h"
#include "compute/kernels/cuda/row_kernels.h"
#ifdef GPU_KERNELS_EMULATED
#include "compute/kernels/emulate/emulate.h"
#endif

#include "base/check.h"
#include "base/number.h"

#include <assert.h>
#include <stddef.h>

static struct live_rows live_of(const uint32_t *live) {
    return (struct live_rows){live, 1, 0};
}

/* The output of prepared rows in a format. */
static struct row_output output_of(const struct gpu_row_format *format, void *rows, float *scales) {
    struct row_output output = {0};
    switch (format->kind) {
    case INPUT_F32:
        output.values = rows;
        output.value_stride = format->pitch / sizeof(float);
        break;
    case INPUT_BF16:
        output.rounded = rows;
        output.rounded_stride = format->pitch / sizeof(uint16_t);
        break;
    case INPUT_FP8:
    case INPUT_FP8_UE8M0:
        output.codes = rows;
        output.code_stride = format->pitch;
        output.scales = scales;
        output.scale_stride = format->scale_stride;
        output.scale_power_of_two = format->kind == INPUT_FP8_UE8M0;
        break;
    case INPUT_INT8: /* for weights in four bits, which devices refuse */
    default:         /* of V4, which they refuse, too */
        check(false);
        break;
    }
    return output;
}

static void prepare(const void *arguments, void *stream) {
    const struct gpu_prepare *args = arguments;
    struct live_rows live = live_of(args->live);
    struct row_output outputs[ROW_OUTPUTS] = {0};
    if (args->first) outputs[0] = output_of(&args->first_format, args->first, args->first_scales);
    if (args->second)
        outputs[1] = output_of(&args->second_format, args->second, args->second_scales);
    if (args->plain)
        outputs[2] = (struct row_output){.values = args->plain, .value_stride = args->plain_stride};
    if (args->weight) {
        float *x = (float *)(uintptr_t)args->x; /* written only if the kernel adds to x */
        row_kernels_norm(stream, x, args->x_stride, NULL, 0, args->weight, args->epsilon, outputs,
                         args->rows, args->n, &live);
        return;
    }
    for (uint32_t i = 0; i < ROW_OUTPUTS; i++)
        if (outputs[i].values || outputs[i].rounded || outputs[i].codes)
            row_kernels_prepare(stream, args->x, args->x_stride, &outputs[i], args->rows, args->n,
                                &live);
}

static void embed(const void *arguments, void *stream) {
    const struct gpu_embed *args = arguments;
    bool halves = args->format.type == WEIGHT_BF16;
    size_t stride = args->format.pitch / weight_type_bytes(args->format.type, 1);
    struct live_rows live = live_of(args->live);
    check(args->format.type != WEIGHT_FP8);
    row_kernels_look_up(stream, halves ? args->embedding : NULL, halves ? NULL : args->embedding,
                        stride, args->ids, args->x, args->x_stride, args->rows, args->format.cols,
                        &live);
}

static void activate(const void *arguments, void *stream) {
    const struct gpu_activate *args = arguments;
    struct row_output output = output_of(&args->format, args->to, args->to_scales);
    struct live_rows live = {args->live, args->live_each, 0};
    row_kernels_activate(stream, args->gate, args->up, args->stride, &output, args->rows, args->n,
                         &live);
}

static void add(const void *arguments, void *stream) {
    const struct gpu_add *args = arguments;
    struct live_rows live = live_of(args->live);
    row_kernels_add(stream, args->y, args->y_stride, args->x, args->x_stride, 1, args->rows,
                    args->n, &live);
}

/* ---- products ---- */

static_assert(sizeof(struct gpu_group) == sizeof(struct row_group) &&
                  offsetof(struct gpu_group, slot) == offsetof(struct row_group, slot),
              "a group of rows is the same to the engine and to the kernel");
/* Both names stand for one value. NOLINTNEXTLINE(misc-redundant-expression) */
static_assert(GPU_SUMMED == ROW_SUMMED && GPU_NO_PAIR == ROW_NO_PAIR, "pairs' rows are the same");

/* FP8 times FP8. False: TMA cannot read this layout. */
static bool multiply_codes(const struct gpu_product *args, void *stream) {
    const struct packed_matrix *matrix = &args->matrix;
    struct fp8_gemm_weights weights;
    struct fp8_gemm_rows rows;
    uint64_t slot_pitch = args->groups ? args->slot_bytes : (uint64_t)matrix->pitch * matrix->rows;
    if (!fp8_gemm_make_weights(&weights, args->weights, matrix->pitch, slot_pitch,
                               args->weight_scales, args->slot_bytes / sizeof(float), matrix->rows,
                               matrix->cols, args->groups ? args->slot_count : 1) ||
        !fp8_gemm_make_rows(&rows, args->x, args->format.pitch, args->x_scales,
                            args->format.scale_stride, args->rows, matrix->cols))
        return false;
    rows.live = live_of(args->live);
    if (args->groups)
        fp8_gemm_run_groups(stream, &weights, &rows, (const void *)args->groups, args->group_count,
                            args->rows, args->y, args->y_stride);
    else
        fp8_gemm_run(stream, &weights, &rows, args->y, args->y_stride, args->rows);
    return true;
}

/* BF16 times BF16. False: TMA cannot read this layout. */
static bool multiply_halves(const struct gpu_product *args, void *stream) {
    const struct packed_matrix *matrix = &args->matrix;
    struct bf16_gemm_weights weights;
    struct bf16_gemm_rows rows;
    struct bf16_gemm_output output = {.values = args->y, .row_stride = args->y_stride};
    uint64_t slot_pitch = args->groups ? args->slot_bytes : (uint64_t)matrix->pitch * matrix->rows;
    if (!bf16_gemm_make_weights(&weights, args->weights, BF16_GEMM_ROWS_OF_K, matrix->pitch,
                                slot_pitch, matrix->rows, matrix->cols,
                                args->groups ? args->slot_count : 1) ||
        !bf16_gemm_make_rows(&rows, args->x, args->format.pitch,
                             (uint64_t)args->format.pitch * args->rows, args->rows, matrix->cols,
                             1))
        return false;
    rows.live = live_of(args->live);
    if (args->groups)
        bf16_gemm_run_groups(stream, &weights, &rows, (const void *)args->groups, args->group_count,
                             args->rows, &output);
    else
        bf16_gemm_run(stream, &weights, &rows, &output, args->rows);
    return true;
}

static const enum float_gemm_type float_types[] = {
    [WEIGHT_FP8] = FLOAT_GEMM_E4M3, [WEIGHT_BF16] = FLOAT_GEMM_BF16, [WEIGHT_F32] = FLOAT_GEMM_F32};

static struct float_gemm_weights float_weights(const struct packed_matrix *matrix, const void *data,
                                               const float *scales) {
    return (struct float_gemm_weights){.data = data,
                                       .scales = scales,
                                       .type = float_types[matrix->type],
                                       .pitch = matrix->pitch,
                                       .n = matrix->rows,
                                       .k = matrix->cols};
}

/* Operands without tensor core support: rows of F32 (the router, and the mode f32), BF16 by FP8
 * (the mode bf16 with an FP8 checkpoint), and BF16 by F32. */
static void multiply_floats(const struct gpu_product *args, void *stream) {
    struct float_gemm_weights weights =
        float_weights(&args->matrix, args->weights, args->weight_scales);
    weights.slot_bytes = args->slot_bytes;
    weights.scale_slot_stride = args->slot_bytes / sizeof(float);
    struct float_gemm_rows rows = {args->x, args->format.pitch, args->format.kind == INPUT_BF16,
                                   live_of(args->live)};
    if (args->groups)
        float_gemm_run_groups(stream, &weights, &rows, (const void *)args->groups,
                              args->group_count, args->rows, args->y, args->y_stride);
    else
        float_gemm_run(stream, &weights, &rows, args->y, args->y_stride, args->rows);
}

/* Rows of codes and their matrices always have a layout that TMA can read. */
static void product(const void *arguments, void *stream) {
    const struct gpu_product *args = arguments;
    bool codes = args->format.kind == INPUT_FP8 || args->format.kind == INPUT_FP8_UE8M0;
    bool halves = args->format.kind == INPUT_BF16 && args->matrix.type == WEIGHT_BF16;
    if ((codes && multiply_codes(args, stream)) || (halves && multiply_halves(args, stream)))
        return;
    check(!codes);
    multiply_floats(args, stream);
}

/* ---- attention ---- */

static void latent(const void *arguments, void *stream) {
    const struct gpu_latent *args = arguments;
    struct attention_latents rows = {.kv_a = args->kv_a,
                                     .stride = args->stride,
                                     .weight = args->weight,
                                     .angles = args->angles,
                                     .positions = args->positions,
                                     .kv_index = args->kv_index,
                                     .first_page = args->first_page,
                                     .pages = args->pages,
                                     .memory = args->memory,
                                     .page_bytes = args->kv.page_bytes,
                                     .slice_at = args->kv.slice_at,
                                     .row_bytes = args->kv.row_bytes,
                                     .rank = args->kv_rank,
                                     .rope = args->rope_dim,
                                     .epsilon = args->epsilon,
                                     .interleaved = args->interleaved,
                                     .is_bf16 = args->kv.is_bf16,
                                     .live = live_of(args->live)};
    attention_rows_write(stream, &rows, args->rows);
}

static void queries(const void *arguments, void *stream) {
    const struct gpu_queries *args = arguments;
    struct attention_queries rows = {.q = args->q,
                                     .stride = args->stride,
                                     .angles = args->angles,
                                     .positions = args->positions,
                                     .to = args->to,
                                     .to_pitch = args->to_pitch,
                                     .heads = args->heads,
                                     .nope = args->nope_dim,
                                     .rope = args->rope_dim,
                                     .interleaved = args->interleaved,
                                     .is_bf16 = args->is_bf16,
                                     .live = live_of(args->live)};
    attention_rows_rotate(stream, &rows, args->rows);
}

/* One half of kv_b: its rows begin `row` rows after each head's first row. */
static bool make_half(const struct packed_matrix *matrix, const void *kv_b,
                      const struct gpu_heads *heads, enum bf16_gemm_form format, uint32_t row,
                      uint32_t n, uint32_t k, struct bf16_gemm_weights *weights_out) {
    uint64_t head_pitch = (uint64_t)(heads->nope_dim + heads->value_dim) * matrix->pitch;
    const void *first = (const char *)kv_b + (size_t)row * matrix->pitch;
    return matrix->type == WEIGHT_BF16 &&
           bf16_gemm_make_weights(weights_out, first, format, matrix->pitch, head_pitch, n, k,
                                  heads->heads);
}

/* kv_b for the modes that do not round. */
static struct mla_float_heads float_heads(const struct packed_matrix *matrix, const void *kv_b,
                                          const float *scales, const struct gpu_heads *args) {
    return (struct mla_float_heads){.kv_b = kv_b,
                                    .scales = scales,
                                    .type = float_types[matrix->type],
                                    .pitch = matrix->pitch,
                                    .heads = args->heads,
                                    .nope = args->nope_dim,
                                    .rope = args->rope_dim,
                                    .value = args->value_dim,
                                    .rank = args->kv_rank};
}

static void absorb_floats(const struct gpu_absorb *args, void *stream) {
    struct mla_float_heads heads =
        float_heads(&args->matrix, args->kv_b, args->kv_b_scales, &args->heads);
    struct mla_float_rows rows = {.x = args->queries,
                                  .y = args->to,
                                  .x_stride = args->queries_pitch / sizeof(float),
                                  .y_stride = args->to_pitch / sizeof(float),
                                  .rows = args->rows,
                                  .live = {args->live, 1, args->live_before}};
    mla_float_absorb(stream, &heads, &rows);
}

static void absorb(const void *arguments, void *stream) {
    const struct gpu_absorb *args = arguments;
    const struct gpu_heads *heads = &args->heads;
    uint32_t dim = heads->nope_dim + heads->rope_dim, width = heads->kv_rank + heads->rope_dim;
    struct bf16_gemm_weights weights;
    struct bf16_gemm_rows rows;
    if (!heads->is_bf16) {
        absorb_floats(args, stream);
        return;
    }
    bool made =
        make_half(&args->matrix, args->kv_b, heads, BF16_GEMM_ROWS_OF_N, 0, heads->kv_rank,
                  heads->nope_dim, &weights) &&
        bf16_gemm_make_rows(&rows, args->queries, args->queries_pitch, dim * sizeof(uint16_t),
                            args->rows, heads->nope_dim, heads->heads);
    check(made);
    rows.live = (struct live_rows){args->live, 1, args->live_before};
    struct bf16_gemm_output output = {.rounded = args->to,
                                      .row_stride = args->to_pitch / sizeof(uint16_t),
                                      .batch_stride = width};
    struct attention_tails tails = {.queries = args->queries,
                                    .stride = args->queries_pitch / sizeof(uint16_t),
                                    .to = args->to,
                                    .to_stride = output.row_stride,
                                    .heads = heads->heads,
                                    .nope = heads->nope_dim,
                                    .rope = heads->rope_dim,
                                    .rank = heads->kv_rank,
                                    .live = rows.live};
    bf16_gemm_run(stream, &weights, &rows, &output, args->rows);
    attention_rows_copy_tails(stream, &tails, args->rows);
}

/* In floats only the results are stored. The size must not be 0, so it is one float for each token.
 */
static size_t core_workspace(const struct gpu_heads *args, uint32_t tokens, uint32_t keys_max) {
    return args->is_bf16 ? mla_decode_room(args->kv_rank, tokens, args->heads, keys_max) : tokens;
}

static void core_floats(const struct gpu_core *args, void *stream) {
    struct mla_float_keys keys = {.first = args->kv_first,
                                  .last = args->kv_index,
                                  .first_page = args->first_page,
                                  .pages = args->pages,
                                  .memory = args->memory,
                                  .page_bytes = args->kv.page_bytes,
                                  .slice_at = args->kv.slice_at,
                                  .row_bytes = args->kv.row_bytes,
                                  .heads = args->heads.heads,
                                  .rank = args->heads.kv_rank,
                                  .rope = args->heads.rope_dim,
                                  .scale = args->heads.scale};
    struct mla_float_rows rows = {.x = args->absorbed,
                                  .y = args->to,
                                  .x_stride = args->absorbed_pitch / sizeof(float),
                                  .y_stride = args->to_pitch / sizeof(float),
                                  .rows = args->rows,
                                  .live = {args->live, 1, args->live_before}};
    mla_float_decode(stream, &keys, &rows);
}

static void core(const void *arguments, void *stream) {
    const struct gpu_core *args = arguments;
    const struct gpu_heads *heads = &args->heads;
    struct mla_decode_pages pages;
    struct mla_decode_queries queries;
    uint32_t width = args->kv.width;
    if (!heads->is_bf16) {
        core_floats(args, stream);
        return;
    }
    bool dense = args->kv.row_bytes == width * sizeof(uint16_t) &&
                 args->absorbed_pitch == heads->heads * width * sizeof(uint16_t) &&
                 args->to_pitch == heads->heads * heads->kv_rank * sizeof(uint16_t);
    bool made =
        mla_decode_make_pages(&pages, args->memory + args->kv.slice_at, args->kv.page_bytes,
                              args->kv.page_bytes, 1, args->kv.page_count, width, heads->kv_rank) &&
        mla_decode_make_queries(&queries, args->absorbed, args->rows, heads->heads, width);
    check(dense && made);
    struct mla_decode_tokens tokens = {args->kv_first,   args->kv_index,
                                       args->first_page, args->pages,
                                       args->rows,       {args->live, 1, args->live_before}};
    mla_decode_run(stream, &pages, 0, &queries, &tokens, args->keys_max, heads->scale,
                   args->workspace, args->to);
}

static void release_floats(const struct gpu_release *args, void *stream) {
    struct mla_float_heads heads =
        float_heads(&args->matrix, args->kv_b, args->kv_b_scales, &args->heads);
    struct mla_float_rows rows = {.x = args->u,
                                  .y = args->attended,
                                  .x_stride = args->u_pitch / sizeof(float),
                                  .y_stride = (size_t)args->heads.heads * args->heads.value_dim,
                                  .rows = args->rows,
                                  .live = {args->live, 1, args->live_before}};
    mla_float_release(stream, &heads, &rows);
}

static void release(const void *arguments, void *stream) {
    const struct gpu_release *args = arguments;
    const struct gpu_heads *heads = &args->heads;
    struct bf16_gemm_weights weights;
    struct bf16_gemm_rows rows;
    if (!heads->is_bf16) {
        release_floats(args, stream);
        return;
    }
    bool made =
        make_half(&args->matrix, args->kv_b, heads, BF16_GEMM_ROWS_OF_K, heads->nope_dim,
                  heads->value_dim, heads->kv_rank, &weights) &&
        bf16_gemm_make_rows(&rows, args->u, args->u_pitch, heads->kv_rank * sizeof(uint16_t),
                            args->rows, heads->kv_rank, heads->heads);
    check(made);
    rows.live = (struct live_rows){args->live, 1, args->live_before};
    struct bf16_gemm_output output = {.values = args->attended,
                                      .row_stride = (size_t)heads->heads * heads->value_dim,
                                      .batch_stride = heads->value_dim};
    bf16_gemm_run(stream, &weights, &rows, &output, args->rows);
}

/* The parts of the prompt workspace: sized for the keys of a round, except for MARKS. */
enum prompt_part { LATENTS, CODES, SCALES, TAILS, EXPANDED, MARKS, PARTS };

static size_t part_bytes(const struct gpu_heads *args, enum prompt_part part, size_t rows,
                         size_t keys) {
    size_t element = args->is_bf16 ? sizeof(uint16_t) : sizeof(float);
    switch (part) {
    case LATENTS:
        return keys * args->kv_rank * sizeof(float);
    case CODES:
        return keys * round_up(args->kv_rank, 16);
    case SCALES:
        return keys * divide_up(args->kv_rank, QUANT_GROUP) * sizeof(float);
    case TAILS:
        return keys * args->rope_dim * element;
    case EXPANDED:
        return keys * args->heads * (args->nope_dim + args->value_dim) * element;
    case MARKS:
        return rows * args->heads * 2 * sizeof(float);
    case PARTS:
        break;
    }
    return 0;
}

/* Offset of a part; PARTS: of the end. */
static size_t part_at(const struct gpu_heads *args, enum prompt_part part, uint32_t rows,
                      uint32_t keys) {
    size_t at = 0;
    for (int i = 0; i < (int)part; i++)
        at += round_up(part_bytes(args, (enum prompt_part)i, rows, keys), 256);
    return at;
}

static size_t prompt_workspace(const struct gpu_heads *args, uint32_t rows, uint32_t keys) {
    return part_at(args, PARTS, rows, keys);
}

static void *part_of(const struct gpu_prompt *args, enum prompt_part part) {
    return args->workspace +
           part_at(&args->heads, part, args->workspace_rows, args->workspace_keys);
}

/* The product that expands the latents of a round. */
struct expansion {
    bool quantizes;
    struct fp8_gemm_weights code_weights;
    struct fp8_gemm_rows code_rows;
    struct bf16_gemm_weights weights;
    struct bf16_gemm_rows rows;
};

/* False: no kernel. */
static bool make_expansion(const struct gpu_prompt *args, struct expansion *expansion) {
    const struct packed_matrix *matrix = &args->matrix;
    uint32_t rank = matrix->cols, keys = args->workspace_keys;
    uint64_t bytes = (uint64_t)matrix->pitch * matrix->rows;
    expansion->quantizes = args->latents == INPUT_FP8 && matrix->type == WEIGHT_FP8;
    if (expansion->quantizes)
        return fp8_gemm_make_weights(&expansion->code_weights, args->kv_b, matrix->pitch, bytes,
                                     args->kv_b_scales, 0, matrix->rows, rank, 1) &&
               fp8_gemm_make_rows(&expansion->code_rows, part_of(args, CODES), round_up(rank, 16),
                                  part_of(args, SCALES), keys, keys, rank);
    return args->latents == INPUT_BF16 && matrix->type == WEIGHT_BF16 &&
           bf16_gemm_make_weights(&expansion->weights, args->kv_b, BF16_GEMM_ROWS_OF_K,
                                  matrix->pitch, bytes, matrix->rows, rank, 1) &&
           bf16_gemm_make_rows(&expansion->rows, part_of(args, LATENTS), rank * sizeof(uint16_t),
                               (uint64_t)keys * rank * sizeof(uint16_t), keys, rank, 1);
}

/* Computes keys and values of all heads from the round's latents. */
static void expand(const struct gpu_prompt *args, const struct expansion *expansion, uint32_t keys,
                   void *stream) {
    uint32_t width = args->matrix.rows, rank = args->matrix.cols;
    if (!expansion->quantizes) {
        struct bf16_gemm_output output = {.rounded = part_of(args, EXPANDED), .row_stride = width};
        bf16_gemm_run(stream, &expansion->weights, &expansion->rows, &output, keys);
        return;
    }
    struct row_output codes = {.codes = part_of(args, CODES),
                               .code_stride = round_up(rank, 16),
                               .scales = part_of(args, SCALES),
                               .scale_stride = args->workspace_keys};
    row_kernels_prepare(stream, part_of(args, LATENTS), rank, &codes, keys, rank, NULL);
    fp8_gemm_run_rounded(stream, &expansion->code_weights, &expansion->code_rows,
                         part_of(args, EXPANDED), width, keys);
}

static_assert(sizeof(struct gpu_run) == sizeof(struct mla_prompt_run) &&
                  offsetof(struct gpu_run, first_page) ==
                      offsetof(struct mla_prompt_run, first_page) &&
                  GPU_PROMPT_TILE == MLA_PROMPT_TILE,
              "a run of a prompt is the same to the engine and to the kernel");

/* Arguments that are the same in all rounds of a prompt. */
struct prompt_rounds {
    struct mla_prompt_runs runs;
    struct mla_prompt_rows rows;
    struct mla_prompt_maps maps;
    struct expansion expansion;
};

/* A round of keys, in the modes that round to BF16. */
static void attend_halves(const struct gpu_prompt *args, const struct prompt_rounds *all,
                          const struct mla_prompt_round *round, void *stream) {
    bool quantizes = all->expansion.quantizes;
    float *latents = quantizes ? part_of(args, LATENTS) : NULL;
    uint16_t *rounded = quantizes ? NULL : part_of(args, LATENTS);
    mla_prompt_take(stream, &all->runs, &all->rows, round, latents, rounded, part_of(args, TAILS));
    expand(args, &all->expansion, round->count, stream);
    mla_prompt_attend(stream, &all->maps, &all->runs, round, args->query_tiles,
                      part_of(args, MARKS), args->attended);
}

/* A round of keys, in the modes that do not round. */
static void attend_floats(const struct gpu_prompt *args, const struct prompt_rounds *all,
                          const struct mla_prompt_round *round, void *stream) {
    const struct gpu_heads *heads = &args->heads;
    struct float_gemm_weights weights = float_weights(&args->matrix, args->kv_b, args->kv_b_scales);
    struct float_gemm_rows latents = {.x = part_of(args, LATENTS),
                                      .pitch = heads->kv_rank * sizeof(float)};
    struct mla_float_prompt prompt = {.queries = args->queries,
                                      .expanded = part_of(args, EXPANDED),
                                      .tails = part_of(args, TAILS),
                                      .marks = part_of(args, MARKS),
                                      .y = args->attended,
                                      .stride = args->queries_pitch / sizeof(float),
                                      .heads = heads->heads,
                                      .nope = heads->nope_dim,
                                      .rope = heads->rope_dim,
                                      .value = heads->value_dim,
                                      .scale = heads->scale};
    check(args->latents == INPUT_F32);
    mla_float_take(stream, &all->runs, &all->rows, round, part_of(args, LATENTS),
                   part_of(args, TAILS));
    float_gemm_run(stream, &weights, &latents, part_of(args, EXPANDED), args->matrix.rows,
                   round->count);
    mla_float_attend(stream, &prompt, &all->runs, round, args->rows);
}

static void prompt(const void *arguments, void *stream) {
    const struct gpu_prompt *args = arguments;
    const struct gpu_heads *heads = &args->heads;
    struct mla_prompt_heads format = {heads->heads, heads->nope_dim, heads->rope_dim,
                                      heads->value_dim, heads->scale};
    struct prompt_rounds all = {
        .runs = {(const void *)args->runs, args->kv_index, args->pages, args->run_count},
        .rows = {args->memory, args->kv.page_bytes, args->kv.slice_at, args->kv.row_bytes,
                 heads->kv_rank, heads->rope_dim}};
    bool made =
        !heads->is_bf16 ||
        (make_expansion(args, &all.expansion) &&
         mla_prompt_make(&all.maps, &format, args->queries, args->queries_pitch, args->rows,
                         part_of(args, EXPANDED), part_of(args, TAILS), args->workspace_keys));
    check(made);
    struct mla_prompt_round round = {0, args->workspace_keys};
    for (uint32_t keys = args->key_tiles * GPU_PROMPT_TILE; round.first < keys;
         round.first += args->workspace_keys) {
        uint32_t left = keys - round.first;
        if (left < round.count) round.count = left;
        (heads->is_bf16 ? attend_halves : attend_floats)(args, &all, &round, stream);
    }
}

/* ---- choices ---- */

static void route(const void *arguments, void *stream) {
    const struct gpu_route *args = arguments;
    bool limited = args->groups > 1 && args->method != ROUTER_GREEDY;
    struct choice_rule rule = {.experts = args->experts_all,
                               .per_token = args->per_token,
                               .groups = args->groups,
                               .groups_kept = limited ? args->groups_kept : 0,
                               .softmax = args->scoring == ROUTER_SOFTMAX,
                               .two_largest = args->method == ROUTER_NOAUX_TC,
                               .normalizes = args->normalizes,
                               .scaling = args->scaling};
    struct live_rows live = live_of(args->live);
    choice_kernels_experts(stream, &rule, args->logits, args->stride, args->bias, args->experts,
                           args->weights, args->rows, &live);
}

static void draw(const void *arguments, void *stream) {
    const struct gpu_draw *args = arguments;
    draw_kernels_tokens(stream, args->logits, args->stride, args->n, args->rules, args->to,
                        args->rows);
}

static void sort(const void *arguments, void *stream) {
    const struct gpu_sort *args = arguments;
    struct choice_pairs pairs = {args->experts,        args->pair_row,     args->row_token,
                                 (void *)args->groups, args->slot_tokens,  args->tokens,
                                 args->per_token,      live_of(args->live)};
    choice_kernels_sort(stream, &pairs, args->slots);
}

static void gather(const void *arguments, void *stream) {
    const struct gpu_gather *args = arguments;
    enum input_kind kind = args->from_format.kind;
    bool codes = kind == INPUT_FP8 || kind == INPUT_FP8_UE8M0;
    uint32_t element = kind == INPUT_F32 ? sizeof(float) : codes ? 1 : sizeof(uint16_t);
    struct row_gather rows = {.from = args->from,
                              .to = args->to,
                              .from_pitch = args->from_format.pitch,
                              .to_pitch = args->to_format.pitch,
                              .from_scales = args->from_scales,
                              .to_scales = args->to_scales,
                              .from_scale_stride = args->from_format.scale_stride,
                              .to_scale_stride = args->to_format.scale_stride,
                              .from_scale_step = args->from_scale_step,
                              .to_scale_step = args->to_scale_step,
                              .ids = args->row_token,
                              .from_rows = args->from_rows,
                              .to_rows = args->to_rows,
                              .scales_at = args->scales_at,
                              .bytes = args->n * element,
                              .groups = codes ? (uint32_t)divide_up(args->n, QUANT_GROUP) : 0,
                              .live = {args->live, args->live_each, 0}};
    row_kernels_gather(stream, &rows, args->rows);
}

static void combine(const void *arguments, void *stream) {
    const struct gpu_combine *args = arguments;
    struct row_results results = {.results = args->results,
                                  .pitch = args->pitch,
                                  .pair_row = args->pair_row,
                                  .experts = args->experts,
                                  .weights = args->weights,
                                  .per_token = args->per_token,
                                  .group_experts = args->group_experts,
                                  .is_bf16 = args->is_bf16,
                                  .rounds_bf16 = args->rounds_bf16,
                                  .live = live_of(args->live)};
    row_kernels_combine(stream, &results, args->y, args->y_stride, args->tokens, args->n);
}

static void pair(const void *arguments, void *stream) {
    const struct gpu_mtp_pair *args = arguments;
    bool is_bf16 = args->format.type == WEIGHT_BF16;
    size_t stride = args->format.pitch / weight_type_bytes(args->format.type, 1),
           width = 2 * args->n;
    struct row_output first[ROW_OUTPUTS] = {{.values = args->pair, .value_stride = width}};
    struct row_output second[ROW_OUTPUTS] = {
        {.values = args->pair + args->n, .value_stride = width}};
    check(args->format.type != WEIGHT_FP8 && args->n % 4 == 0);
    row_kernels_look_up(stream, is_bf16 ? args->embedding : NULL, is_bf16 ? NULL : args->embedding,
                        stride, args->ids, args->pair, width, args->rows, args->n, NULL);
    row_kernels_pick(stream, args->hidden, args->kept, args->n, args->source, args->pair + args->n,
                     width, args->rows, args->n);
    row_kernels_norm(stream, args->pair, width, NULL, 0, args->embedding_norm, args->epsilon, first,
                     args->rows, args->n, NULL);
    row_kernels_norm(stream, args->pair + args->n, width, NULL, 0, args->hidden_norm, args->epsilon,
                     second, args->rows, args->n, NULL);
}

#ifdef GPU_KERNELS_EMULATED
static const struct device_watch emulator = {emulate_memory_add, emulate_memory_drop};
#endif

#define GPU_HOPPER_LAUNCH(kernel, pointer_count) .kernel = {#kernel, pointer_count, kernel},

const struct gpu_kernels gpu_hopper = {
#ifdef GPU_KERNELS_EMULATED
    .numerics = "hopper2e", /* emulated tensor cores sum differently */
    .watch = &emulator,
#else
    .numerics = "hopper2",
#endif
    .takes = gpu_hopper_limits_takes,
    .kv_b_bf16 = true,
    .core_workspace = core_workspace,
    .prompt_workspace = prompt_workspace,
    GPU_KERNELS(GPU_HOPPER_LAUNCH)};
