/* SPDX-License-Identifier: Apache-2.0
 * Core attention of prompt tokens, expanded form: latents are read from the KV pages, even those of
 * this step, and kv_b expands them to each head's keys and values.
 *
 *   score[s][t] = scale * (q_nope[s].k_nope[t] + q_pe[s].k_pe[t]), t <= s
 *
 * A work item is one run and one group of heads. It walks the context chunk by chunk
 * (attention_core.h) and keeps the online softmax of all its queries: maximum, sum and results. A
 * query's result depends on its own row and the KV rows before it, never on the step: chunks begin
 * at multiples of 64 positions, wherever a prompt is cut into steps.
 *
 * With products of BF16 values, kv_b is rounded to BF16 once per item, unless its inputs are FP8.
 * It then multiplies the latents directly in their pages.
 */
#include "compute/model/attention_prompt.h"

#include "compute/model/attention_core.h"
#include "compute/model/attention_index.h"
#include "compute/model/token_loop.h"

#include <math.h>
#include <string.h>

struct group {
    uint32_t first_head, heads;
    struct packed_matrix kv_b; /* the group's rows */
};

static struct group group_at(const struct pass *pass, uint32_t index) {
    const struct shape *shape = pass->model->shape;
    uint32_t group_heads = pass->scratch->group_heads;
    uint32_t head_rows = shape->nope_dim + shape->value_dim;
    uint32_t first = index * group_heads;
    uint32_t left = shape->heads - first;
    uint32_t heads = left < group_heads ? left : group_heads;
    return (struct group){
        .first_head = first,
        .heads = heads,
        .kv_b = weights_row_view(&compute_weights(pass)->attention.kv_b, first * head_rows,
                                 heads * head_rows),
    };
}

/* In fp8 mode, prefill treats kv_b like any other FP8 linear. fp8-f32 never quantizes its input. */
static enum input_kind expand_kind(const struct model *model, const struct packed_matrix *kv_b) {
    if (model->activations == ACTIVATIONS_FP8_F32) return INPUT_F32;
    return linear_input_kind(model->activations, kv_b->type, false);
}

/* True if weights rounded to BF16 multiply latents directly in their pages. */
static bool expands_pages(const struct model *model, const struct group *group) {
    return model->bf16_attention && expand_kind(model, &group->kv_b) == INPUT_BF16;
}

static uint16_t *rounded_panel(const struct model *model, uint32_t panel,
                               const struct attention_scratch *room) {
    return room->kv_b + (size_t)panel * MATMUL_PANEL * model->shape->kv_rank;
}

static void round_kv_b(const struct model *model, const struct group *group,
                       const struct attention_scratch *room) {
    for (uint32_t panel = 0; panel < packed_panels(group->kv_b.rows); panel++)
        model->kernels->bf16_panel(rounded_panel(model, panel, room), &group->kv_b, panel);
}

static void expand_pages(const struct pass *pass, const struct group *group,
                         const struct core_chunk *chunk, struct attention_scratch *room) {
    const struct model *model = pass->model;
    for (uint32_t panel = 0; panel < packed_panels(group->kv_b.rows); panel++) {
        struct gemm_bf16 job = {
            .layout = BF16_PAIRS,
            .a = chunk->pieces[0],
            .a_stride = model->kv.width,
            .b = rounded_panel(model, panel, room),
            .b_stride = (size_t)2 * MATMUL_PANEL,
            .c = room->expanded + (size_t)panel * MATMUL_PANEL,
            .c_stride = pass->scratch->expanded_stride,
            .m = chunk->rows,
            .n = MATMUL_PANEL,
            .k = model->shape->kv_rank,
            .pieces = chunk->pieces,
        };
        model->kernels->gemm_bf16(&job);
    }
}

/* Expands by an ordinary linear, from rows of floats. */
static void expand_rows(const struct pass *pass, const struct group *group,
                        const struct core_chunk *chunk, struct attention_scratch *room) {
    const struct model *model = pass->model;
    const struct kernels *kernels = model->kernels;
    uint32_t width = model->kv.width, stride = pass->scratch->expanded_stride;
    enum input_kind kind = expand_kind(model, &group->kv_b);
    for (uint32_t i = 0, row = 0; i < chunk->count; row += chunk->spans[i++].count) {
        attention_core_load(model, &chunk->spans[i], room->rows);
        for (uint32_t t = 0; kind == INPUT_FP8 && t < chunk->spans[i].count; t++)
            linear_prepare(kernels, kind, room->rows + t * width, model->shape->kv_rank,
                           &room->prepared, row + t);
    }
    struct linear_input input = kind == INPUT_FP8
                                    ? linear_prepared(kind, &room->prepared, 0)
                                    : linear_plain(room->rows, width, model->rounds_bf16);
    struct matmul job = linear_job(&group->kv_b, &input, room->expanded, stride, chunk->rows);
    kernels->matmul(&job, 0, packed_panels(group->kv_b.rows));
    if (!model->rounds_bf16 || model->bf16_attention)
        return; /* they are rounded later, when they are copied */
    for (uint32_t t = 0; t < chunk->rows; t++)
        kernels->round_bf16(room->expanded + t * stride, room->expanded + t * stride,
                            group->kv_b.rows);
}

/* The queries of a run that attend to a chunk, for one head. */
struct query_tile {
    uint32_t first, count; /* of the run's tokens */
    uint32_t head;         /* index in the group */
    uint32_t seen;         /* rows of the chunk visible to the last query */
};

/* A head's queries of the whole run are contiguous, BF16 or floats. So are its results. */
static void *head_queries(const struct pass *pass, uint32_t head, uint32_t token,
                          const struct attention_scratch *room) {
    const struct model *model = pass->model;
    size_t row = (size_t)head * model->scratch_tokens + token;
    size_t element = model->bf16_attention ? sizeof(uint16_t) : sizeof(float);
    return room->head_queries + row * shape_query_dim(model->shape) * element;
}

static float *head_results(const struct pass *pass, uint32_t head, uint32_t token,
                           const struct attention_scratch *room) {
    size_t row = (size_t)head * pass->model->scratch_tokens + token;
    return room->head_results + row * pass->model->shape->value_dim;
}

static void score_tile(const struct pass *pass, const struct query_tile *tile,
                       struct attention_scratch *room) {
    const struct model *model = pass->model;
    uint32_t query_dim = shape_query_dim(model->shape);
    const void *queries = head_queries(pass, tile->head, tile->first, room);
    if (model->bf16_attention) {
        struct gemm_bf16 score = {
            .layout = BF16_PAIRS,
            .a = queries,
            .a_stride = query_dim,
            .b = (const uint16_t *)(const void *)room->keys,
            .b_stride = 2 * room->keys_stride,
            .c = room->scores,
            .c_stride = room->scores_stride,
            .m = tile->count,
            .n = (uint32_t)round_up(tile->seen, 16), /* whole AMX tiles; the rest is not read */
            .k = query_dim,
        };
        model->kernels->gemm_bf16(&score);
        return;
    }
    struct gemm score = {
        .a = queries,
        .a_stride = query_dim,
        .b = room->keys,
        .b_stride = room->keys_stride,
        .c = room->scores,
        .c_stride = room->scores_stride,
        .m = tile->count,
        .n = tile->seen,
        .k = query_dim,
    };
    model->kernels->gemm(&score);
}

/* results += the chunk's values, weighted by the exponentials in `room`. */
static void gather_tile(const struct pass *pass, const struct query_tile *tile, bool is_first,
                        struct attention_scratch *room) {
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    float *results = head_results(pass, tile->head, tile->first, room);
    if (model->bf16_attention) {
        struct gemm_bf16 gather = {
            .layout = BF16_PAIRS,
            .a = room->weights,
            .a_stride = room->weights_stride,
            .b = room->values,
            .b_stride = (size_t)2 * shape->value_dim,
            .c = results,
            .c_stride = shape->value_dim,
            .m = tile->count,
            .n = shape->value_dim,
            .k = (uint32_t)round_up(tile->seen, BF16_PAIR_ROWS), /* weights beyond are 0 */
            .accumulate = !is_first,
        };
        model->kernels->gemm_bf16(&gather);
        return;
    }
    uint32_t head_rows = shape->nope_dim + shape->value_dim;
    struct gemm gather = {
        .a = room->scores,
        .a_stride = room->scores_stride,
        .b = room->expanded + tile->head * head_rows + shape->nope_dim,
        .b_stride = pass->scratch->expanded_stride,
        .c = results,
        .c_stride = shape->value_dim,
        .m = tile->count,
        .n = shape->value_dim,
        .k = tile->seen,
        .accumulate = !is_first,
    };
    model->kernels->gemm(&gather);
}

/* Turns a query's `seen` visible scores of a chunk into weights of the tile's length. Returns the
 * factor for its results so far. */
static float weigh_query(const struct model *model, const struct query_tile *tile, uint32_t query,
                         uint32_t seen, float *max, float *sum, struct attention_scratch *room) {
    const float scale = model->shape->attention_scale;
    float *scores = room->scores + query * room->scores_stride, factor;
    if (model->bf16_attention) {
        uint16_t *weights = room->weights + query * room->weights_stride;
        size_t done = round_up(seen, KV_BLOCK_TOKENS), all = round_up(tile->seen, KV_BLOCK_TOKENS);
        factor = model->kernels->softmax_bf16(weights, scores, seen, scale, max, sum);
        memset(weights + done, 0, (all - done) * sizeof *weights);
        return factor;
    }
    attention_core_softmax(model->kernels, scores, seen, scale, max, sum, &factor);
    memset(scores + seen, 0, (tile->seen - seen) * sizeof *scores);
    return factor;
}

static void attention_prompt_attend_tile(const struct pass *pass, const struct run *run,
                                         uint32_t first_head, const struct core_chunk *chunk,
                                         struct query_tile *tile, struct attention_scratch *room) {
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    const struct scratch *s = pass->scratch;
    /* The rows of the tile's first and last query, counted from the chunk's first row. */
    uint32_t first_row = run->first_position + run->kv_shift + tile->first - chunk->spans[0].start;
    uint32_t last_row = first_row + tile->count - 1;
    tile->seen = last_row < chunk->rows ? last_row + 1 : chunk->rows;
    score_tile(pass, tile, room);
    for (uint32_t i = 0; i < tile->count; i++) {
        uint32_t seen = first_row + i < chunk->rows ? first_row + i + 1 : chunk->rows;
        size_t token = run->first + tile->first + i;
        size_t state = token * shape->heads + first_head + tile->head;
        float factor =
            weigh_query(model, tile, i, seen, &s->softmax_max[state], &s->softmax_sum[state], room);
        if (factor != 1 && !chunk->is_first)
            model->kernels->scale(head_results(pass, tile->head, tile->first + i, room), factor,
                                  shape->value_dim);
    }
    gather_tile(pass, tile, chunk->is_first, room);
}

/* Transposes `count` rows of `channels` channels into keys from channel `first` and row `row` on.
 * BF16 values move in pairs, so channels 2i and 2i + 1 of a token stay adjacent. */
static void turn_keys(const struct model *model, uint32_t first, uint32_t channels, uint32_t row,
                      const void *from, size_t stride, uint32_t count,
                      struct attention_scratch *room) {
    uint32_t packed = model->bf16_attention ? 2 : 1;
    model->kernels->transpose(room->keys + (size_t)first / packed * room->keys_stride + row,
                              room->keys_stride, from, stride / packed, count, channels / packed);
}

static void take_shared_keys(const struct model *model, const struct core_chunk *chunk,
                             struct attention_scratch *room) {
    const struct shape *shape = model->shape;
    for (uint32_t i = 0, row = 0; i < chunk->count; row += chunk->spans[i++].count) {
        const void *from = model->bf16_attention ? (const void *)(chunk->pieces[i] + shape->kv_rank)
                                                 : (const void *)(room->rows + shape->kv_rank);
        turn_keys(model, shape->nope_dim, shape->rope_dim, row, from, model->kv.width,
                  chunk->spans[i].count, room);
    }
}

/* Copies a head's own keys and, with products of BF16 values, its values as pairs of rows. */
static void attention_prompt_take_head(const struct pass *pass, uint32_t head, uint32_t rows,
                                       struct attention_scratch *room) {
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    const uint32_t nope = shape->nope_dim;
    const size_t stride = pass->scratch->expanded_stride;
    const float *expanded = room->expanded + (size_t)head * (nope + shape->value_dim);
    if (!model->bf16_attention) {
        turn_keys(model, 0, nope, 0, expanded, stride, rows, room);
        return;
    }
    for (uint32_t row = 0; row < rows; row++)
        model->kernels->bf16_from_float(room->nope_keys + row * nope, expanded + row * stride,
                                        nope);
    turn_keys(model, 0, nope, 0, room->nope_keys, nope, rows, room);
    model->kernels->bf16_pair_rows(room->values, expanded + nope, stride, rows, shape->value_dim);
}

static void attend_chunk(const struct pass *pass, const struct run *run, const struct group *group,
                         const struct core_chunk *chunk, struct attention_scratch *room) {
    uint32_t first_index = run->first_position + run->kv_shift, start = chunk->spans[0].start;
    /* The first query that attends to any row of the chunk: */
    uint32_t from = start > first_index ? start - first_index : 0;
    take_shared_keys(pass->model, chunk, room);
    for (uint32_t head = 0; head < group->heads; head++) {
        attention_prompt_take_head(pass, head, chunk->rows, room);
        for (uint32_t first = from; first < run->token_count; first += ATTENTION_TILE) {
            uint32_t left = run->token_count - first;
            struct query_tile tile = {.first = first,
                                      .count = left < ATTENTION_TILE ? left : ATTENTION_TILE,
                                      .head = head};
            attention_prompt_attend_tile(pass, run, group->first_head, chunk, &tile, room);
        }
    }
}

static void attention_prompt_begin_heads(const struct pass *pass, const struct run *run,
                                         const struct group *group,
                                         const struct attention_scratch *room) {
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    uint32_t query_dim = shape_query_dim(model->shape);
    for (uint32_t i = 0; i < run->token_count; i++) {
        size_t token = run->first + i, state = token * model->shape->heads;
        for (uint32_t head = 0; head < group->heads; head++) {
            uint32_t of_all = group->first_head + head;
            const float *from = s->q + token * s->micro_batch_stride + (size_t)of_all * query_dim;
            void *to = head_queries(pass, head, i, room);
            if (model->bf16_attention)
                model->kernels->bf16_from_float(to, from, query_dim);
            else
                memcpy(to, from, query_dim * sizeof *from);
            s->softmax_max[state + of_all] = -INFINITY;
            s->softmax_sum[state + of_all] = 0;
        }
    }
}

static void attention_prompt_finish_heads(const struct pass *pass, const struct run *run,
                                          const struct group *group,
                                          const struct attention_scratch *room) {
    const struct shape *shape = pass->model->shape;
    const struct scratch *s = pass->scratch;
    for (uint32_t i = 0; i < run->token_count; i++) {
        size_t token = run->first + i;
        for (uint32_t head = 0; head < group->heads; head++) {
            uint32_t of_all = group->first_head + head;
            float *to =
                s->attended + token * s->micro_batch_stride + (size_t)of_all * shape->value_dim;
            memcpy(to, head_results(pass, head, i, room), shape->value_dim * sizeof *to);
            pass->model->kernels->scale(to, 1 / s->softmax_sum[token * shape->heads + of_all],
                                        shape->value_dim);
        }
    }
}

static uint32_t group_count(const struct pass *pass) {
    return (uint32_t)divide_up(pass->model->shape->heads, pass->scratch->group_heads);
}

static void attention_prompt_attend_items(void *context, uint32_t first, uint32_t count,
                                          uint32_t member) {
    const struct pass *pass = context;
    struct attention_scratch *room = &pass->scratch->attention[member];
    for (uint32_t item = first; item < first + count; item++) {
        struct run run = pass->batch->runs[item / group_count(pass)];
        struct group group = group_at(pass, item % group_count(pass));
        bool by_pages = expands_pages(pass->model, &group);
        run.token_count = attention_index_dense(pass, &run);
        if (!run.token_count) continue;
        struct core_walk walk =
            attention_core_begin(pass, &run, run.first, run.first + run.token_count);
        attention_prompt_begin_heads(pass, &run, &group, room);
        if (by_pages) round_kv_b(pass->model, &group, room);
        while (attention_core_next_chunk(&walk)) {
            if (by_pages)
                expand_pages(pass, &group, &walk.chunk, room);
            else
                expand_rows(pass, &group, &walk.chunk, room);
            attend_chunk(pass, &run, &group, &walk.chunk, room);
        }
        attention_prompt_finish_heads(pass, &run, &group, room);
    }
}

void attention_prompt_run(const struct pass *pass) {
    uint32_t items = pass->batch->prompt_runs * group_count(pass);
    if (!items) return;
    team_run(pass->model->team, attention_prompt_attend_items, (void *)(uintptr_t)pass, items, 1);
    pass_part(pass, PART_CORE_PROMPT);
}
