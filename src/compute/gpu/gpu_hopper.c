/* SPDX-License-Identifier: Apache-2.0
 * The device's kernels for Hopper: what the engine gives an entry of the table becomes launches of
 * compute/kernels/cuda. gpu_hopper_limits has refused what has no kernel. Verified by emulation;
 * not yet run on a GPU.
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

/* Where prepared rows go. */
static struct row_output output_of(const struct gpu_form *form, void *rows, float *scales) {
    struct row_output output = {0};
    switch (form->kind) {
    case INPUT_F32:
        output.values = rows;
        output.value_stride = form->pitch / sizeof(float);
        break;
    case INPUT_BF16:
        output.rounded = rows;
        output.rounded_stride = form->pitch / sizeof(uint16_t);
        break;
    case INPUT_FP8:
    case INPUT_FP8_UE8M0:
        output.codes = rows;
        output.code_stride = form->pitch;
        output.scales = scales;
        output.scale_stride = form->scale_stride;
        output.scale_power_of_two = form->kind == INPUT_FP8_UE8M0;
        break;
    }
    return output;
}

static void prepare(const void *arguments, void *stream) {
    const struct gpu_prepare *of = arguments;
    struct live_rows live = live_of(of->live);
    struct row_output outputs[ROW_OUTPUTS] = {0};
    if (of->first) outputs[0] = output_of(&of->first_form, of->first, of->first_scales);
    if (of->second) outputs[1] = output_of(&of->second_form, of->second, of->second_scales);
    if (of->plain)
        outputs[2] = (struct row_output){.values = of->plain, .value_stride = of->plain_stride};
    if (of->weight) {
        float *x = (float *)(uintptr_t)of->x; /* only sums change it */
        row_kernels_norm(stream, x, of->x_stride, NULL, 0, of->weight, of->epsilon, outputs,
                         of->rows, of->n, &live);
        return;
    }
    for (uint32_t i = 0; i < ROW_OUTPUTS; i++)
        if (outputs[i].values || outputs[i].rounded || outputs[i].codes)
            row_kernels_prepare(stream, of->x, of->x_stride, &outputs[i], of->rows, of->n, &live);
}

static void embed(const void *arguments, void *stream) {
    const struct gpu_embed *of = arguments;
    bool halves = of->form.type == WEIGHT_BF16;
    size_t stride = of->form.pitch / weight_type_bytes(of->form.type, 1);
    struct live_rows live = live_of(of->live);
    check(of->form.type != WEIGHT_FP8);
    row_kernels_look_up(stream, halves ? of->embedding : NULL, halves ? NULL : of->embedding,
                        stride, of->ids, of->x, of->x_stride, of->rows, of->form.cols, &live);
}

static void activate(const void *arguments, void *stream) {
    const struct gpu_activate *of = arguments;
    struct row_output output = output_of(&of->form, of->to, of->to_scales);
    struct live_rows live = {of->live, of->live_each, 0};
    row_kernels_activate(stream, of->gate, of->up, of->stride, &output, of->rows, of->n, &live);
}

static void add(const void *arguments, void *stream) {
    const struct gpu_add *of = arguments;
    struct live_rows live = live_of(of->live);
    row_kernels_add(stream, of->y, of->y_stride, of->x, of->x_stride, 1, of->rows, of->n, &live);
}

/* ---- products ---- */

static_assert(sizeof(struct gpu_group) == sizeof(struct row_group) &&
                  offsetof(struct gpu_group, slot) == offsetof(struct row_group, slot),
              "a group of rows is the same to the engine and to the kernel");
/* The two names of a number have to stay alike. NOLINTNEXTLINE(misc-redundant-expression) */
static_assert(GPU_SUMMED == ROW_SUMMED && GPU_NO_PAIR == ROW_NO_PAIR, "pairs' rows are the same");

/* Codes by codes. False: TMA cannot take how they lie. */
static bool multiply_codes(const struct gpu_product *of, void *stream) {
    const struct packed_matrix *matrix = &of->matrix;
    struct fp8_gemm_weights weights;
    struct fp8_gemm_rows rows;
    uint64_t slot_pitch = of->groups ? of->slot_bytes : (uint64_t)matrix->pitch * matrix->rows;
    if (!fp8_gemm_make_weights(&weights, of->weights, matrix->pitch, slot_pitch, of->weight_scales,
                               of->slot_bytes / sizeof(float), matrix->rows, matrix->cols,
                               of->groups ? of->slot_count : 1) ||
        !fp8_gemm_make_rows(&rows, of->x, of->form.pitch, of->x_scales, of->form.scale_stride,
                            of->rows, matrix->cols))
        return false;
    rows.live = live_of(of->live);
    if (of->groups)
        fp8_gemm_run_groups(stream, &weights, &rows, (const void *)of->groups, of->group_count,
                            of->rows, of->y, of->y_stride);
    else
        fp8_gemm_run(stream, &weights, &rows, of->y, of->y_stride, of->rows);
    return true;
}

/* BF16 by BF16. False: as above. */
static bool multiply_halves(const struct gpu_product *of, void *stream) {
    const struct packed_matrix *matrix = &of->matrix;
    struct bf16_gemm_weights weights;
    struct bf16_gemm_rows rows;
    struct bf16_gemm_output output = {.values = of->y, .row_stride = of->y_stride};
    uint64_t slot_pitch = of->groups ? of->slot_bytes : (uint64_t)matrix->pitch * matrix->rows;
    if (!bf16_gemm_make_weights(&weights, of->weights, BF16_GEMM_ROWS_OF_K, matrix->pitch,
                                slot_pitch, matrix->rows, matrix->cols,
                                of->groups ? of->slot_count : 1) ||
        !bf16_gemm_make_rows(&rows, of->x, of->form.pitch, (uint64_t)of->form.pitch * of->rows,
                             of->rows, matrix->cols, 1))
        return false;
    rows.live = live_of(of->live);
    if (of->groups)
        bf16_gemm_run_groups(stream, &weights, &rows, (const void *)of->groups, of->group_count,
                             of->rows, &output);
    else
        bf16_gemm_run(stream, &weights, &rows, &output, of->rows);
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

/* Multiplies operands that tensor cores do not take: rows of F32 (the router's, and the mode f32), BF16
 * by FP8 (the mode bf16 of an FP8 checkpoint) or by F32. */
static void multiply_floats(const struct gpu_product *of, void *stream) {
    struct float_gemm_weights weights = float_weights(&of->matrix, of->weights, of->weight_scales);
    weights.slot_bytes = of->slot_bytes;
    weights.scale_slot_stride = of->slot_bytes / sizeof(float);
    struct float_gemm_rows rows = {of->x, of->form.pitch, of->form.kind == INPUT_BF16,
                                   live_of(of->live)};
    if (of->groups)
        float_gemm_run_groups(stream, &weights, &rows, (const void *)of->groups, of->group_count,
                              of->rows, of->y, of->y_stride);
    else
        float_gemm_run(stream, &weights, &rows, of->y, of->y_stride, of->rows);
}

/* Rows of codes and matrices lie where TMA takes them. */
static void product(const void *arguments, void *stream) {
    const struct gpu_product *of = arguments;
    bool codes = of->form.kind == INPUT_FP8 || of->form.kind == INPUT_FP8_UE8M0;
    bool halves = of->form.kind == INPUT_BF16 && of->matrix.type == WEIGHT_BF16;
    if ((codes && multiply_codes(of, stream)) || (halves && multiply_halves(of, stream))) return;
    check(!codes);
    multiply_floats(of, stream);
}

/* ---- attention ---- */

static void latent(const void *arguments, void *stream) {
    const struct gpu_latent *of = arguments;
    struct attention_latents rows = {.kv_a = of->kv_a,
                                     .stride = of->stride,
                                     .weight = of->weight,
                                     .angles = of->angles,
                                     .positions = of->positions,
                                     .kv_index = of->kv_index,
                                     .first_page = of->first_page,
                                     .pages = of->pages,
                                     .memory = of->memory,
                                     .page_bytes = of->kv.page_bytes,
                                     .slice_at = of->kv.slice_at,
                                     .row_bytes = of->kv.row_bytes,
                                     .rank = of->kv_rank,
                                     .rope = of->rope_dim,
                                     .epsilon = of->epsilon,
                                     .interleaved = of->interleaved,
                                     .is_bf16 = of->kv.is_bf16,
                                     .live = live_of(of->live)};
    attention_rows_write(stream, &rows, of->rows);
}

static void queries(const void *arguments, void *stream) {
    const struct gpu_queries *of = arguments;
    struct attention_queries rows = {.q = of->q,
                                     .stride = of->stride,
                                     .angles = of->angles,
                                     .positions = of->positions,
                                     .to = of->to,
                                     .to_pitch = of->to_pitch,
                                     .heads = of->heads,
                                     .nope = of->nope_dim,
                                     .rope = of->rope_dim,
                                     .interleaved = of->interleaved,
                                     .is_bf16 = of->is_bf16,
                                     .live = live_of(of->live)};
    attention_rows_rotate(stream, &rows, of->rows);
}

/* A head's half of kv_b begins `row` rows behind the head's first. */
static bool make_half(const struct packed_matrix *matrix, const void *kv_b,
                      const struct gpu_heads *heads, enum bf16_gemm_form form, uint32_t row,
                      uint32_t n, uint32_t k, struct bf16_gemm_weights *weights_out) {
    uint64_t head_pitch = (uint64_t)(heads->nope_dim + heads->value_dim) * matrix->pitch;
    const void *first = (const char *)kv_b + (size_t)row * matrix->pitch;
    return matrix->type == WEIGHT_BF16 &&
           bf16_gemm_make_weights(weights_out, first, form, matrix->pitch, head_pitch, n, k,
                                  heads->heads);
}

/* The modes that round nothing. */
static struct mla_float_heads float_heads(const struct packed_matrix *matrix, const void *kv_b,
                                          const float *scales, const struct gpu_heads *of) {
    return (struct mla_float_heads){.kv_b = kv_b,
                                    .scales = scales,
                                    .type = float_types[matrix->type],
                                    .pitch = matrix->pitch,
                                    .heads = of->heads,
                                    .nope = of->nope_dim,
                                    .rope = of->rope_dim,
                                    .value = of->value_dim,
                                    .rank = of->kv_rank};
}

static void absorb_floats(const struct gpu_absorb *of, void *stream) {
    struct mla_float_heads heads = float_heads(&of->matrix, of->kv_b, of->kv_b_scales, &of->of);
    struct mla_float_rows rows = {.x = of->queries,
                                  .y = of->to,
                                  .x_stride = of->queries_pitch / sizeof(float),
                                  .y_stride = of->to_pitch / sizeof(float),
                                  .rows = of->rows,
                                  .live = {of->live, 1, of->live_before}};
    mla_float_absorb(stream, &heads, &rows);
}

static void absorb(const void *arguments, void *stream) {
    const struct gpu_absorb *of = arguments;
    const struct gpu_heads *heads = &of->of;
    uint32_t dim = heads->nope_dim + heads->rope_dim, width = heads->kv_rank + heads->rope_dim;
    struct bf16_gemm_weights weights;
    struct bf16_gemm_rows rows;
    if (!heads->is_bf16) {
        absorb_floats(of, stream);
        return;
    }
    bool made = make_half(&of->matrix, of->kv_b, heads, BF16_GEMM_ROWS_OF_N, 0, heads->kv_rank,
                          heads->nope_dim, &weights) &&
                bf16_gemm_make_rows(&rows, of->queries, of->queries_pitch, dim * sizeof(uint16_t),
                                    of->rows, heads->nope_dim, heads->heads);
    check(made);
    rows.live = (struct live_rows){of->live, 1, of->live_before};
    struct bf16_gemm_output output = {
        .rounded = of->to, .row_stride = of->to_pitch / sizeof(uint16_t), .batch_stride = width};
    struct attention_tails tails = {.queries = of->queries,
                                    .stride = of->queries_pitch / sizeof(uint16_t),
                                    .to = of->to,
                                    .to_stride = output.row_stride,
                                    .heads = heads->heads,
                                    .nope = heads->nope_dim,
                                    .rope = heads->rope_dim,
                                    .rank = heads->kv_rank,
                                    .live = rows.live};
    bf16_gemm_run(stream, &weights, &rows, &output, of->rows);
    attention_rows_copy_tails(stream, &tails, of->rows);
}

/* In floats only the results are kept: a float for each token, as the size may not be 0. */
static size_t core_room(const struct gpu_heads *of, uint32_t tokens, uint32_t keys_max) {
    return of->is_bf16 ? mla_decode_room(of->kv_rank, tokens, of->heads, keys_max) : tokens;
}

static void core_floats(const struct gpu_core *of, void *stream) {
    struct mla_float_keys keys = {.first = of->kv_first,
                                  .last = of->kv_index,
                                  .first_page = of->first_page,
                                  .pages = of->pages,
                                  .memory = of->memory,
                                  .page_bytes = of->kv.page_bytes,
                                  .slice_at = of->kv.slice_at,
                                  .row_bytes = of->kv.row_bytes,
                                  .heads = of->of.heads,
                                  .rank = of->of.kv_rank,
                                  .rope = of->of.rope_dim,
                                  .scale = of->of.scale};
    struct mla_float_rows rows = {.x = of->absorbed,
                                  .y = of->to,
                                  .x_stride = of->absorbed_pitch / sizeof(float),
                                  .y_stride = of->to_pitch / sizeof(float),
                                  .rows = of->rows,
                                  .live = {of->live, 1, of->live_before}};
    mla_float_decode(stream, &keys, &rows);
}

static void core(const void *arguments, void *stream) {
    const struct gpu_core *of = arguments;
    const struct gpu_heads *heads = &of->of;
    struct mla_decode_pages pages;
    struct mla_decode_queries queries;
    uint32_t width = of->kv.width;
    if (!heads->is_bf16) {
        core_floats(of, stream);
        return;
    }
    bool dense = of->kv.row_bytes == width * sizeof(uint16_t) &&
                 of->absorbed_pitch == heads->heads * width * sizeof(uint16_t) &&
                 of->to_pitch == heads->heads * heads->kv_rank * sizeof(uint16_t);
    bool made =
        mla_decode_make_pages(&pages, of->memory + of->kv.slice_at, of->kv.page_bytes,
                              of->kv.page_bytes, 1, of->kv.page_count, width, heads->kv_rank) &&
        mla_decode_make_queries(&queries, of->absorbed, of->rows, heads->heads, width);
    check(dense && made);
    struct mla_decode_tokens tokens = {of->kv_first, of->kv_index, of->first_page,
                                       of->pages,    of->rows,     {of->live, 1, of->live_before}};
    mla_decode_run(stream, &pages, 0, &queries, &tokens, of->keys_max, heads->scale, of->room,
                   of->to);
}

static void release_floats(const struct gpu_release *of, void *stream) {
    struct mla_float_heads heads = float_heads(&of->matrix, of->kv_b, of->kv_b_scales, &of->of);
    struct mla_float_rows rows = {.x = of->u,
                                  .y = of->attended,
                                  .x_stride = of->u_pitch / sizeof(float),
                                  .y_stride = (size_t)of->of.heads * of->of.value_dim,
                                  .rows = of->rows,
                                  .live = {of->live, 1, of->live_before}};
    mla_float_release(stream, &heads, &rows);
}

static void release(const void *arguments, void *stream) {
    const struct gpu_release *of = arguments;
    const struct gpu_heads *heads = &of->of;
    struct bf16_gemm_weights weights;
    struct bf16_gemm_rows rows;
    if (!heads->is_bf16) {
        release_floats(of, stream);
        return;
    }
    bool made = make_half(&of->matrix, of->kv_b, heads, BF16_GEMM_ROWS_OF_K, heads->nope_dim,
                          heads->value_dim, heads->kv_rank, &weights) &&
                bf16_gemm_make_rows(&rows, of->u, of->u_pitch, heads->kv_rank * sizeof(uint16_t),
                                    of->rows, heads->kv_rank, heads->heads);
    check(made);
    rows.live = (struct live_rows){of->live, 1, of->live_before};
    struct bf16_gemm_output output = {.values = of->attended,
                                      .row_stride = (size_t)heads->heads * heads->value_dim,
                                      .batch_stride = heads->value_dim};
    bf16_gemm_run(stream, &weights, &rows, &output, of->rows);
}

/* The parts of the prompt's memory, one after another, of a round's keys except for the marks. */
enum prompt_part { LATENTS, CODES, SCALES, TAILS, EXPANDED, MARKS, PARTS };

static size_t part_bytes(const struct gpu_heads *of, enum prompt_part part, size_t rows,
                         size_t keys) {
    size_t element = of->is_bf16 ? sizeof(uint16_t) : sizeof(float);
    switch (part) {
    case LATENTS:
        return keys * of->kv_rank * sizeof(float);
    case CODES:
        return keys * round_up(of->kv_rank, 16);
    case SCALES:
        return keys * divide_up(of->kv_rank, QUANT_GROUP) * sizeof(float);
    case TAILS:
        return keys * of->rope_dim * element;
    case EXPANDED:
        return keys * of->heads * (of->nope_dim + of->value_dim) * element;
    case MARKS:
        return rows * of->heads * 2 * sizeof(float);
    case PARTS:
        break;
    }
    return 0;
}

/* Where a part begins; PARTS: where all end. */
static size_t part_at(const struct gpu_heads *of, enum prompt_part part, uint32_t rows,
                      uint32_t keys) {
    size_t at = 0;
    for (int i = 0; i < (int)part; i++)
        at += round_up(part_bytes(of, (enum prompt_part)i, rows, keys), 256);
    return at;
}

static size_t prompt_room(const struct gpu_heads *of, uint32_t rows, uint32_t keys) {
    return part_at(of, PARTS, rows, keys);
}

static void *part_of(const struct gpu_prompt *of, enum prompt_part part) {
    return of->room + part_at(&of->of, part, of->room_rows, of->room_keys);
}

/* Products that expand a round's latents. */
struct expansion {
    bool quantizes;
    struct fp8_gemm_weights code_weights;
    struct fp8_gemm_rows code_rows;
    struct bf16_gemm_weights weights;
    struct bf16_gemm_rows rows;
};

/* False: there is no kernel for it. */
static bool make_expansion(const struct gpu_prompt *of, struct expansion *expansion) {
    const struct packed_matrix *matrix = &of->matrix;
    uint32_t rank = matrix->cols, keys = of->room_keys;
    uint64_t bytes = (uint64_t)matrix->pitch * matrix->rows;
    expansion->quantizes = of->latents == INPUT_FP8 && matrix->type == WEIGHT_FP8;
    if (expansion->quantizes)
        return fp8_gemm_make_weights(&expansion->code_weights, of->kv_b, matrix->pitch, bytes,
                                     of->kv_b_scales, 0, matrix->rows, rank, 1) &&
               fp8_gemm_make_rows(&expansion->code_rows, part_of(of, CODES), round_up(rank, 16),
                                  part_of(of, SCALES), keys, keys, rank);
    return of->latents == INPUT_BF16 && matrix->type == WEIGHT_BF16 &&
           bf16_gemm_make_weights(&expansion->weights, of->kv_b, BF16_GEMM_ROWS_OF_K, matrix->pitch,
                                  bytes, matrix->rows, rank, 1) &&
           bf16_gemm_make_rows(&expansion->rows, part_of(of, LATENTS), rank * sizeof(uint16_t),
                               (uint64_t)keys * rank * sizeof(uint16_t), keys, rank, 1);
}

/* Keys and values of all heads, of the round's latents. */
static void expand(const struct gpu_prompt *of, const struct expansion *expansion, uint32_t keys,
                   void *stream) {
    uint32_t width = of->matrix.rows, rank = of->matrix.cols;
    if (!expansion->quantizes) {
        struct bf16_gemm_output output = {.rounded = part_of(of, EXPANDED), .row_stride = width};
        bf16_gemm_run(stream, &expansion->weights, &expansion->rows, &output, keys);
        return;
    }
    struct row_output codes = {.codes = part_of(of, CODES),
                               .code_stride = round_up(rank, 16),
                               .scales = part_of(of, SCALES),
                               .scale_stride = of->room_keys};
    row_kernels_prepare(stream, part_of(of, LATENTS), rank, &codes, keys, rank, NULL);
    fp8_gemm_run_rounded(stream, &expansion->code_weights, &expansion->code_rows,
                         part_of(of, EXPANDED), width, keys);
}

static_assert(sizeof(struct gpu_run) == sizeof(struct mla_prompt_run) &&
                  offsetof(struct gpu_run, first_page) ==
                      offsetof(struct mla_prompt_run, first_page) &&
                  GPU_PROMPT_TILE == MLA_PROMPT_TILE,
              "a run of a prompt is the same to the engine and to the kernel");

/* The memory that all rounds of a prompt share. */
struct prompt_rounds {
    struct mla_prompt_runs runs;
    struct mla_prompt_rows rows;
    struct mla_prompt_maps maps;
    struct expansion expansion;
};

/* A round of the modes that round: of keys of BF16. */
static void attend_halves(const struct gpu_prompt *of, const struct prompt_rounds *all,
                          const struct mla_prompt_round *round, void *stream) {
    bool quantizes = all->expansion.quantizes;
    float *latents = quantizes ? part_of(of, LATENTS) : NULL;
    uint16_t *rounded = quantizes ? NULL : part_of(of, LATENTS);
    mla_prompt_take(stream, &all->runs, &all->rows, round, latents, rounded, part_of(of, TAILS));
    expand(of, &all->expansion, round->count, stream);
    mla_prompt_attend(stream, &all->maps, &all->runs, round, of->query_tiles, part_of(of, MARKS),
                      of->attended);
}

/* A round of those that do not. */
static void attend_floats(const struct gpu_prompt *of, const struct prompt_rounds *all,
                          const struct mla_prompt_round *round, void *stream) {
    const struct gpu_heads *heads = &of->of;
    struct float_gemm_weights weights = float_weights(&of->matrix, of->kv_b, of->kv_b_scales);
    struct float_gemm_rows latents = {.x = part_of(of, LATENTS),
                                      .pitch = heads->kv_rank * sizeof(float)};
    struct mla_float_prompt prompt = {.queries = of->queries,
                                      .expanded = part_of(of, EXPANDED),
                                      .tails = part_of(of, TAILS),
                                      .marks = part_of(of, MARKS),
                                      .y = of->attended,
                                      .stride = of->queries_pitch / sizeof(float),
                                      .heads = heads->heads,
                                      .nope = heads->nope_dim,
                                      .rope = heads->rope_dim,
                                      .value = heads->value_dim,
                                      .scale = heads->scale};
    check(of->latents == INPUT_F32);
    mla_float_take(stream, &all->runs, &all->rows, round, part_of(of, LATENTS), part_of(of, TAILS));
    float_gemm_run(stream, &weights, &latents, part_of(of, EXPANDED), of->matrix.rows,
                   round->count);
    mla_float_attend(stream, &prompt, &all->runs, round, of->rows);
}

static void prompt(const void *arguments, void *stream) {
    const struct gpu_prompt *of = arguments;
    const struct gpu_heads *heads = &of->of;
    struct mla_prompt_heads form = {heads->heads, heads->nope_dim, heads->rope_dim,
                                    heads->value_dim, heads->scale};
    struct prompt_rounds all = {
        .runs = {(const void *)of->runs, of->kv_index, of->pages, of->run_count},
        .rows = {of->memory, of->kv.page_bytes, of->kv.slice_at, of->kv.row_bytes, heads->kv_rank,
                 heads->rope_dim}};
    bool made = !heads->is_bf16 ||
                (make_expansion(of, &all.expansion) &&
                 mla_prompt_make(&all.maps, &form, of->queries, of->queries_pitch, of->rows,
                                 part_of(of, EXPANDED), part_of(of, TAILS), of->room_keys));
    check(made);
    struct mla_prompt_round round = {0, of->room_keys};
    for (uint32_t keys = of->key_tiles * GPU_PROMPT_TILE; round.first < keys;
         round.first += of->room_keys) {
        uint32_t left = keys - round.first;
        if (left < round.count) round.count = left;
        (heads->is_bf16 ? attend_halves : attend_floats)(of, &all, &round, stream);
    }
}

/* ---- choices ---- */

static void route(const void *arguments, void *stream) {
    const struct gpu_route *of = arguments;
    bool limited = of->groups > 1 && of->method != ROUTER_GREEDY;
    struct choice_rule rule = {.experts = of->experts_all,
                               .per_token = of->per_token,
                               .groups = of->groups,
                               .groups_kept = limited ? of->groups_kept : 0,
                               .softmax = of->scoring == ROUTER_SOFTMAX,
                               .two_largest = of->method == ROUTER_NOAUX_TC,
                               .normalizes = of->normalizes,
                               .scaling = of->scaling};
    struct live_rows live = live_of(of->live);
    choice_kernels_experts(stream, &rule, of->logits, of->stride, of->bias, of->experts,
                           of->weights, of->rows, &live);
}

static void draw(const void *arguments, void *stream) {
    const struct gpu_draw *of = arguments;
    draw_kernels_tokens(stream, of->logits, of->stride, of->n, of->rules, of->to, of->rows);
}

static void sort(const void *arguments, void *stream) {
    const struct gpu_sort *of = arguments;
    struct choice_pairs pairs = {of->experts,     of->pair_row, of->row_token, (void *)of->groups,
                                 of->slot_tokens, of->tokens,   of->per_token, live_of(of->live)};
    choice_kernels_sort(stream, &pairs, of->slots);
}

static void gather(const void *arguments, void *stream) {
    const struct gpu_gather *of = arguments;
    enum input_kind kind = of->from_form.kind;
    bool codes = kind == INPUT_FP8 || kind == INPUT_FP8_UE8M0;
    uint32_t element = kind == INPUT_F32 ? sizeof(float) : codes ? 1 : sizeof(uint16_t);
    struct row_gather rows = {.from = of->from,
                              .to = of->to,
                              .from_pitch = of->from_form.pitch,
                              .to_pitch = of->to_form.pitch,
                              .from_scales = of->from_scales,
                              .to_scales = of->to_scales,
                              .from_scale_stride = of->from_form.scale_stride,
                              .to_scale_stride = of->to_form.scale_stride,
                              .from_scale_step = of->from_scale_step,
                              .to_scale_step = of->to_scale_step,
                              .ids = of->row_token,
                              .from_rows = of->from_rows,
                              .to_rows = of->to_rows,
                              .scales_at = of->scales_at,
                              .bytes = of->n * element,
                              .groups = codes ? (uint32_t)divide_up(of->n, QUANT_GROUP) : 0,
                              .live = {of->live, of->live_each, 0}};
    row_kernels_gather(stream, &rows, of->rows);
}

static void combine(const void *arguments, void *stream) {
    const struct gpu_combine *of = arguments;
    struct row_results results = {.results = of->results,
                                  .pitch = of->pitch,
                                  .pair_row = of->pair_row,
                                  .experts = of->experts,
                                  .weights = of->weights,
                                  .per_token = of->per_token,
                                  .group_experts = of->group_experts,
                                  .is_bf16 = of->is_bf16,
                                  .rounds_bf16 = of->rounds_bf16,
                                  .live = live_of(of->live)};
    row_kernels_combine(stream, &results, of->y, of->y_stride, of->tokens, of->n);
}

static void pair(const void *arguments, void *stream) {
    const struct gpu_mtp_pair *of = arguments;
    bool is_bf16 = of->form.type == WEIGHT_BF16;
    size_t stride = of->form.pitch / weight_type_bytes(of->form.type, 1), width = 2 * of->n;
    struct row_output first[ROW_OUTPUTS] = {{.values = of->pair, .value_stride = width}};
    struct row_output second[ROW_OUTPUTS] = {{.values = of->pair + of->n, .value_stride = width}};
    check(of->form.type != WEIGHT_FP8 && of->n % 4 == 0);
    row_kernels_look_up(stream, is_bf16 ? of->embedding : NULL, is_bf16 ? NULL : of->embedding,
                        stride, of->ids, of->pair, width, of->rows, of->n, NULL);
    row_kernels_pick(stream, of->hidden, of->kept, of->n, of->source, of->pair + of->n, width,
                     of->rows, of->n);
    row_kernels_norm(stream, of->pair, width, NULL, 0, of->embedding_norm, of->epsilon, first,
                     of->rows, of->n, NULL);
    row_kernels_norm(stream, of->pair + of->n, width, NULL, 0, of->hidden_norm, of->epsilon, second,
                     of->rows, of->n, NULL);
}

#ifdef GPU_KERNELS_EMULATED
static const struct device_watch emulator = {emulate_memory_add, emulate_memory_drop};
#endif

#define GPU_HOPPER_LAUNCH(kernel, pointer_count) .kernel = {#kernel, pointer_count, kernel},

const struct gpu_kernels gpu_hopper = {
#ifdef GPU_KERNELS_EMULATED
    .numerics = "hopper2e", /* the tensor cores' sums are a model of them */
    .watch = &emulator,
#else
    .numerics = "hopper2",
#endif
    .takes = gpu_hopper_limits_takes,
    .kv_b_bf16 = true,
    .core_room = core_room,
    .prompt_room = prompt_room,
    GPU_KERNELS(GPU_HOPPER_LAUNCH)};
