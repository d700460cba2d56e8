/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/attention_compressed.h"

#include "base/number.h"
#include "compute/model/attention_core.h"
#include "compute/model/compressed_index.h"
#include "compute/model/compressor.h"
#include "compute/model/engram.h"
#include "compute/model/hyper_connections.h"
#include "compute/model/kv_rounding.h"
#include "compute/model/rope.h"
#include "compute/model/token_loop.h"

#include <math.h>
#include <string.h>

static const struct layer_kind *attention_compressed_kind(const struct pass *pass) {
    return &pass->model->shape->layer_kinds[pass->layer];
}

static bool makes_entries(const struct pass *pass) {
    const struct layer_kind *kind = attention_compressed_kind(pass);
    return kind->ratio && kind->entry_source == pass->layer;
}

static bool makes_choice(const struct pass *pass) {
    const struct layer_kind *kind = attention_compressed_kind(pass);
    return kind->ratio && kind->index_source == pass->layer;
}

const float *attention_compressed_angles(const struct pass *pass) {
    const struct scratch *s = pass->scratch;
    return attention_compressed_kind(pass)->ratio ? s->compressed_angles : s->angles;
}

void attention_compressed_rotate(const struct model *model, const float *angles, float *x,
                                 uint32_t width) {
    const uint32_t rope = model->shape->rope_dim;
    model->kernels->rotate(x + width - rope, angles, rope / 2, true);
}

char *attention_compressed_row(const struct pass *pass, const struct run *run,
                               enum compressed_kind kind, uint32_t entry) {
    const struct model *model = pass->model;
    const struct layer_kind *layer = attention_compressed_kind(pass);
    const uint32_t page = run->pages[compressed_rows_page(layer->ratio, entry)].index;
    return (char *)kv_pages_slice(&model->kv, page, 0) +
           compressed_rows_at(&model->compressed, layer->entry_source, kind, layer->ratio, entry);
}

/* ---- projections ---- */

static void normalize_input(const struct pass *pass) {
    const struct layer_weights *weights = compute_weights(pass);
    const enum input_kind q_kind = compute_kind(pass->model, &weights->attention.q_a);
    const enum input_kind plain = pass->model->rounds_bf16 ? INPUT_BF16 : INPUT_F32;
    hyper_connections_enter(pass, &weights->attention.streams);
    token_loop_normalize(pass, weights->attention.norm, q_kind, plain == q_kind ? NULL : &plain);
    pass_part(pass, PART_ATTENTION_NORM);
}

/* A linear of the layer's input. */
struct down_job {
    const struct packed_matrix *weights;
    float *y;
    size_t y_stride;
};

#define DOWN_JOBS 7

static void run_down(const struct pass *pass, const struct down_job *list, uint32_t count) {
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    struct linear_input inputs[DOWN_JOBS];
    struct matmul jobs[DOWN_JOBS];
    uint32_t job_count = 0;
    const enum input_kind q_kind = compute_kind(model, &compute_weights(pass)->attention.q_a);
    for (uint32_t i = 0; i < count; i++) {
        if (!list[i].weights->data) continue; /* V4.1 at ratio 1 has no gate */
        const enum input_kind kind = compute_kind(model, list[i].weights);
        inputs[job_count] = linear_prepared(kind, kind == q_kind ? &s->input : &s->input_shared, 0);
        jobs[job_count] = linear_job(list[i].weights, &inputs[job_count], list[i].y,
                                     list[i].y_stride, pass->batch->token_count);
        job_count++;
    }
    linear_run(model->kernels, model->team, jobs, job_count);
}

static void attention_compressed_project(const struct pass *pass) {
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    const struct scratch *s = pass->scratch;
    struct down_job list[DOWN_JOBS] = {{&attention->q_a, s->q_a, s->q_a_stride},
                                       {&attention->kv_a, s->kv_a, s->kv_a_stride}};
    uint32_t count = 2;
    if (makes_entries(pass)) {
        list[count++] = (struct down_job){&attention->pool.value, s->pool_value, s->pool_stride};
        list[count++] = (struct down_job){&attention->pool.gate, s->pool_gate, s->pool_stride};
    }
    if (makes_choice(pass)) {
        list[count++] = (struct down_job){&attention->index_weights, s->index_w, s->index_w_stride};
        list[count++] = (struct down_job){&attention->index_pool.value, s->index_pool_value,
                                          s->index_pool_stride};
        list[count++] = (struct down_job){&attention->index_pool.gate, s->index_pool_gate,
                                          s->index_pool_stride};
    }
    run_down(pass, list, count);
    pass_part(pass, PART_DOWN);
}

/* Makes a token's row of the window, in kv_a. */
static void finish_row(const struct pass *pass, uint32_t token) {
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    const struct shape *shape = model->shape;
    const uint32_t width = shape_kv_width(shape);
    float *kv = s->kv_a + (size_t)token * s->kv_a_stride;
    model->kernels->rmsnorm(kv, kv, compute_weights(pass)->attention.kv_a_norm, width,
                            shape->rms_epsilon);
    attention_compressed_rotate(
        model, attention_compressed_angles(pass) + (size_t)token * shape->rope_dim, kv, width);
    kv_rounding_window(model, kv);
    if (model->rounds_bf16) model->kernels->round_bf16(kv, kv, width);
}

static void attention_compressed_finish_down(void *context, uint32_t first, uint32_t count,
                                             uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    struct scratch *s = pass->scratch;
    const struct shape *shape = model->shape;
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    for (uint32_t token = first; token < first + count; token++) {
        float *q_a = s->q_a + (size_t)token * s->q_a_stride;
        finish_row(pass, token);
        model->kernels->rmsnorm(q_a, q_a, attention->q_a_norm, shape->q_rank, shape->rms_epsilon);
        linear_prepare(model->kernels, compute_kind(model, &attention->q_b), q_a, shape->q_rank,
                       &s->input, token);
    }
}

static void finish_query(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    const struct scratch *s = pass->scratch;
    const uint32_t width = shape_kv_width(shape);
    for (uint32_t token = first; token < first + count; token++) {
        const float *angles = attention_compressed_angles(pass) + (size_t)token * shape->rope_dim;
        float *q = s->q + (size_t)token * s->micro_batch_stride;
        for (uint32_t head = 0; head < shape->heads; head++, q += width) {
            if (shape->normalizes_heads)
                model->kernels->rmsnorm(q, q, s->ones, width, shape->rms_epsilon);
            attention_compressed_rotate(model, angles, q, width);
            if (model->rounds_bf16) model->kernels->round_bf16(q, q, width);
        }
    }
}

/* ---- entries ---- */

/* Writes the entries that tokens complete to the pages. */
static void write_entries(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    const struct scratch *s = pass->scratch;
    const uint32_t width = shape_kv_width(shape), ratio = attention_compressed_kind(pass)->ratio;
    float angles[ROPE_DIM_MAX];
    for (uint32_t token = first; token < first + count; token++) {
        const uint32_t position = pass->batch->positions[token];
        float *entry = s->pool_value + (size_t)token * s->pool_stride;
        if ((position + 1) % ratio) continue;
        const uint32_t number = position / ratio;
        const struct run *run = &pass->batch->runs[pass->batch->token_run[token]];
        model->kernels->rmsnorm(entry, entry, compute_weights(pass)->attention.pool.norm, width,
                                shape->rms_epsilon);
        rope_turn(shape->compressed_frequency, shape->rope_dim, number * ratio, angles);
        float *rotated = s->attention[member].rows;
        memcpy(rotated, entry, width * sizeof *entry); /* V4.1 makes index keys of the entry */
        attention_compressed_rotate(model, angles, rotated, width);
        kv_rounding_entry(model, rotated);
        compressed_rows_write(&model->kv, model->kernels, width,
                              attention_compressed_row(pass, run, COMPRESSED_ENTRY, number),
                              rotated);
    }
}

static void make_entries(const struct pass *pass) {
    compressor_run(pass, COMPRESS_ENTRIES);
    token_loop_run(pass->model, write_entries, (void *)(uintptr_t)pass, pass->batch->token_count);
}

/* ---- core ---- */

/* Some heads of a token. */
struct head_strip {
    const struct pass *pass;
    const struct run *run;
    uint32_t token, position, first_head, heads;
    struct attention_scratch *room;
    float largest[CORE_HEADS], sum[CORE_HEADS];
};

/* Attends to `count` rows in room->rows. */
static void attend_rows(struct head_strip *strip, uint32_t count) {
    const struct model *model = strip->pass->model;
    const struct kernels *kernels = model->kernels;
    struct attention_scratch *room = strip->room;
    const uint32_t width = shape_kv_width(model->shape);
    struct gemm scores = {.a = room->rows,
                          .a_stride = width,
                          .b = room->queries,
                          .b_stride = CORE_HEADS,
                          .c = room->keys,
                          .c_stride = CORE_HEADS,
                          .m = count,
                          .n = strip->heads,
                          .k = width};
    kernels->gemm(&scores);
    kernels->transpose(room->scores, room->scores_stride, room->keys, CORE_HEADS, count,
                       strip->heads);
    for (uint32_t head = 0; head < strip->heads; head++) {
        float factor;
        attention_core_softmax(kernels, room->scores + head * room->scores_stride, count,
                               model->shape->attention_scale, &strip->largest[head],
                               &strip->sum[head], &factor);
        kernels->scale(room->head_results + (size_t)head * width, factor, width);
    }
    struct gemm values = {.a = room->scores,
                          .a_stride = room->scores_stride,
                          .b = room->rows,
                          .b_stride = width,
                          .c = room->head_results,
                          .c_stride = width,
                          .m = strip->heads,
                          .n = width,
                          .k = count,
                          .accumulate = true};
    kernels->gemm(&values);
}

/* A row of the window, as floats. */
static void load_window_row(const struct head_strip *strip, uint32_t position, float *out) {
    const struct model *model = strip->pass->model;
    const struct scratch *s = strip->pass->scratch;
    const struct run *run = strip->run;
    const uint32_t width = shape_kv_width(model->shape);
    if (position >= run->first_position)
        memcpy(out,
               s->kv_a + (size_t)(run->first + position - run->first_position) * s->kv_a_stride,
               width * sizeof *out);
    else
        compressed_rows_read(
            &model->kv, model->kernels, width,
            sequence_state_row(&model->state, run->slot, strip->pass->layer, position), out);
}

static void attend_window(struct head_strip *strip) {
    const uint32_t width = shape_kv_width(strip->pass->model->shape);
    const uint32_t window = strip->pass->model->shape->window, end = strip->position + 1;
    uint32_t position = end > window ? end - window : 0;
    while (position < end) {
        const uint32_t count = min_u32(end - position, CHUNK_ROWS);
        for (uint32_t i = 0; i < count; i++)
            load_window_row(strip, position + i, strip->room->rows + (size_t)i * width);
        attend_rows(strip, count);
        position += count;
    }
}

static void attend_entries(struct head_strip *strip) {
    const struct pass *pass = strip->pass;
    const struct model *model = pass->model;
    const struct layer_kind *kind = attention_compressed_kind(pass);
    const uint32_t width = shape_kv_width(model->shape);
    const uint32_t *chosen = NULL;
    uint32_t end = (strip->position + 1) / kind->ratio;
    if (kind->index_source != LAYER_NONE) {
        chosen = pass->scratch->chosen + (size_t)strip->token * model->shape->index_top_k;
        end = pass->scratch->chosen_count[strip->token];
    }
    for (uint32_t at = 0; at < end; at += CHUNK_ROWS) {
        const uint32_t count = min_u32(end - at, CHUNK_ROWS);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t entry = chosen ? chosen[at + i] : at + i;
            compressed_rows_read(
                &model->kv, model->kernels, width,
                attention_compressed_row(pass, strip->run, COMPRESSED_ENTRY, entry),
                strip->room->rows + (size_t)i * width);
        }
        attend_rows(strip, count);
    }
}

/* Writes the strip's results in place of its queries. */
static void finish_strip(const struct head_strip *strip, float *out) {
    const struct pass *pass = strip->pass;
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    const uint32_t width = shape_kv_width(shape), rope = shape->rope_dim;
    const float *sink = compute_weights(pass)->attention.sink + strip->first_head;
    float back[ROPE_DIM_MAX];
    memcpy(back, attention_compressed_angles(pass) + (size_t)strip->token * rope,
           rope * sizeof *back);
    for (uint32_t i = rope / 2; i < rope; i++)
        back[i] = -back[i];
    for (uint32_t head = 0; head < strip->heads; head++, out += width) {
        const float *result = strip->room->head_results + (size_t)head * width;
        const float sum = strip->sum[head] +
                          kernels_exp(sink[head] - strip->largest[head] * shape->attention_scale);
        memcpy(out, result, width * sizeof *out);
        model->kernels->scale(out, 1 / sum, width);
        attention_compressed_rotate(model, back, out, width);
    }
}

static uint32_t strips_each(const struct shape *shape) {
    return (uint32_t)divide_up(shape->heads, CORE_HEADS);
}

static void attend_strips(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    const uint32_t each = strips_each(model->shape), width = shape_kv_width(model->shape);
    for (uint32_t item = first; item < first + count; item++) {
        const uint32_t token = item / each, head = item % each * CORE_HEADS;
        struct head_strip strip = {.pass = pass,
                                   .run = &pass->batch->runs[pass->batch->token_run[token]],
                                   .token = token,
                                   .position = pass->batch->positions[token],
                                   .first_head = head,
                                   .heads = min_u32(model->shape->heads - head, CORE_HEADS),
                                   .room = &s->attention[member]};
        float *q = s->q + (size_t)token * s->micro_batch_stride + (size_t)head * width;
        for (uint32_t i = 0; i < strip.heads; i++)
            strip.largest[i] = -INFINITY;
        model->kernels->transpose(strip.room->queries, CORE_HEADS, q, width, strip.heads, width);
        memset(strip.room->head_results, 0, (size_t)strip.heads * width * sizeof(float));
        attend_window(&strip);
        if (attention_compressed_kind(pass)->ratio) attend_entries(&strip);
        finish_strip(&strip, q);
    }
}

/* Writes the runs' last rows to their rings. */
static void write_rings(const struct pass *pass) {
    struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    const uint32_t width = shape_kv_width(model->shape);
    for (uint32_t i = 0; i < pass->batch->run_count; i++) {
        const struct run *run = &pass->batch->runs[i];
        const uint32_t rows = min_u32(run->token_count, model->state.ring_rows);
        for (uint32_t row = run->token_count - rows; row < run->token_count; row++)
            compressed_rows_write(&model->kv, model->kernels, width,
                                  sequence_state_row(&model->state, run->slot, pass->layer,
                                                     run->first_position + row),
                                  s->kv_a + (size_t)(run->first + row) * s->kv_a_stride);
    }
}

void attention_compressed_begin(const struct pass *pass) {
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    const uint32_t tokens = pass->batch->token_count;
    engram_run(pass);
    normalize_input(pass);
    attention_compressed_project(pass);
    token_loop_run(model, attention_compressed_finish_down, (void *)(uintptr_t)pass, tokens);
    pass_part(pass, PART_LATENT);
    token_loop_linear(model, &compute_weights(pass)->attention.q_b, &s->input, s->q,
                      s->micro_batch_stride, tokens);
    token_loop_run(model, finish_query, (void *)(uintptr_t)pass, tokens);
    pass_part(pass, PART_QUERY);
    if (makes_entries(pass)) {
        make_entries(pass);
        compressed_index_write_keys(pass);
    }
    if (makes_choice(pass)) compressed_index_choose(pass);
    team_run(model->team, attend_strips, (void *)(uintptr_t)pass,
             tokens * strips_each(model->shape), 1);
    write_rings(pass);
}

/* ---- output ---- */

/* Rows of output_input lie group by group, as each group's product reads its own. */
static void prepare_groups(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    const uint32_t groups = model->shape->output_groups, tokens = pass->batch->token_count;
    const uint32_t width = model->shape->heads / groups * model->shape->value_dim;
    const enum input_kind kind = compute_kind(model, &attention->output_groups[0]);
    for (uint32_t token = first; token < first + count; token++)
        for (uint32_t group = 0; group < groups; group++)
            linear_prepare(model->kernels, kind,
                           s->q + (size_t)token * s->micro_batch_stride + (size_t)group * width,
                           width, &s->output_input, group * tokens + token);
}

static void join_groups(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    struct scratch *s = pass->scratch;
    const uint32_t groups = model->shape->output_groups, rank = model->shape->output_rank;
    const enum input_kind kind = compute_kind(model, &compute_weights(pass)->attention.o);
    float *joined = s->attention[member].joined;
    for (uint32_t token = first; token < first + count; token++) {
        for (uint32_t group = 0; group < groups; group++)
            memcpy(joined + (size_t)group * rank,
                   s->output_u + ((size_t)token * groups + group) * s->output_u_stride,
                   rank * sizeof *joined);
        linear_prepare(model->kernels, kind, joined, groups * rank, &s->input, token);
    }
}

void attention_compressed_finish(const struct pass *pass) {
    struct model *model = pass->model;
    struct scratch *s = pass->scratch;
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    const uint32_t tokens = pass->batch->token_count, groups = model->shape->output_groups;
    token_loop_run(model, prepare_groups, (void *)(uintptr_t)pass, tokens);
    for (uint32_t group = 0; group < groups; group++) {
        struct linear_input input =
            linear_prepared(compute_kind(model, &attention->output_groups[group]), &s->output_input,
                            group * tokens);
        s->jobs[group] = linear_job(&attention->output_groups[group], &input,
                                    s->output_u + (size_t)group * s->output_u_stride,
                                    (size_t)groups * s->output_u_stride, tokens);
    }
    linear_run(model->kernels, model->team, s->jobs, groups);
    token_loop_run(model, join_groups, (void *)(uintptr_t)pass, tokens);
    pass_part(pass, PART_OUTPUT_INPUT);
    token_loop_linear(model, &attention->o, &s->input, s->y, s->hidden_stride, tokens);
    pass_part(pass, PART_OUTPUT);
}

static void finish_rows(void *context, uint32_t first, uint32_t count, uint32_t member) {
    for (uint32_t token = first; token < first + count; token++)
        finish_row(context, token);
}

void attention_compressed_write_rows(const struct pass *pass) {
    const struct scratch *s = pass->scratch;
    struct down_job kv = {&compute_weights(pass)->attention.kv_a, s->kv_a, s->kv_a_stride};
    normalize_input(pass);
    run_down(pass, &kv, 1);
    token_loop_run(pass->model, finish_rows, (void *)(uintptr_t)pass, pass->batch->token_count);
    write_rings(pass);
}
