/* SPDX-License-Identifier: Apache-2.0
 * Core attention of prompt tokens, expanded form: a block's latents are read back from the KV page,
 * also those of this very chunk, and expanded by kv_b to each head's keys and values.
 *
 *   score[s][t] = scale * (q_nope[s].k_nope[t] + q_pe[s].k_pe[t]), t <= s
 *
 * An item is one run and one group of heads; it walks the blocks in ascending order and keeps the
 * online softmax of all its queries: maximum and sum beside the output, which gathers in place. A
 * query's result depends on its own row and the KV rows before it, never on the chunk: each block
 * starts at a multiple of 64 positions, and chunks end on such a multiple or at the prompt's end.
 */
#include "compute/model/attention_prompt.h"

#include "compute/model/attention_core.h"
#include "compute/model/compute_cpu.h"

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

/* fp8 serves prefill with kv_b as any other FP8 linear; fp8-f32 never quantizes its input. */
static enum input_kind expand_kind(const struct model *model, const struct packed_matrix *kv_b) {
    if (model->activations == ACTIVATIONS_FP8_F32) return INPUT_F32;
    return linear_input_kind(model->activations, kv_b->type, false);
}

static void expand(const struct pass *pass, const struct group *group, const struct kv_span *span,
                   struct attention_scratch *room) {
    const struct model *model = pass->model;
    const struct kernels *kernels = model->kernels;
    uint32_t width = model->kv.width, stride = pass->scratch->expanded_stride;
    enum input_kind kind = expand_kind(model, &group->kv_b);
    attention_core_load(model, span, room->rows);
    struct linear_input input = linear_plain(room->rows, width, model->rounds_bf16);
    if (kind == INPUT_FP8) {
        for (uint32_t t = 0; t < span->count; t++)
            linear_prepare(kernels, kind, room->rows + t * width, model->shape->kv_rank,
                           &room->prepared, t);
        input = linear_prepared(kind, &room->prepared, 0);
    }
    struct matmul job = linear_job(&group->kv_b, &input, room->expanded, stride, span->count);
    kernels->matmul(&job, 0, packed_panels(group->kv_b.rows));
    for (uint32_t t = 0; t < span->count; t++) {
        float *row = room->expanded + t * stride;
        if (model->bf16_attention)
            kernels->bf16_from_float(room->values + t * stride, row, group->kv_b.rows);
        else if (model->rounds_bf16)
            kernels->round_bf16(row, row, group->kv_b.rows);
    }
}

/* Queries of a run against one block, for one head. */
struct query_tile {
    uint32_t token, count; /* the first one's internal index */
    uint32_t head;
    size_t values; /* where the head's values are in a row of room->expanded or room->values */
};

static void score_tile(const struct pass *pass, const struct query_tile *tile,
                       const struct kv_span *span, struct attention_scratch *room) {
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    uint32_t query_dim = shape_query_dim(model->shape);
    const float *q = s->q + (size_t)tile->token * s->lane_stride;
    if (model->bf16_attention) {
        struct gemm_bf16 score = {
            .layout = BF16_PAIRS,
            .a = (const uint16_t *)(const void *)q + tile->head * query_dim,
            .a_stride = (size_t)2 * s->lane_stride,
            .b = (const uint16_t *)room->keys,
            .b_stride = (size_t)2 * KV_BLOCK_TOKENS,
            .c = room->scores,
            .c_stride = KV_BLOCK_TOKENS,
            .m = tile->count,
            .n = span->count,
            .k = query_dim,
        };
        model->kernels->gemm_bf16(&score);
        return;
    }
    struct gemm score = {
        .a = q + tile->head * query_dim,
        .a_stride = s->lane_stride,
        .b = room->keys,
        .b_stride = KV_BLOCK_TOKENS,
        .c = room->scores,
        .c_stride = KV_BLOCK_TOKENS,
        .m = tile->count,
        .n = span->count,
        .k = query_dim,
    };
    model->kernels->gemm(&score);
}

/* out += the block's values, weighted by the exponentials in room. */
static void gather_tile(const struct pass *pass, const struct query_tile *tile,
                        const struct kv_span *span, float *out, struct attention_scratch *room) {
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    size_t stride = pass->scratch->expanded_stride;
    if (model->bf16_attention) {
        struct gemm_bf16 gather = {
            .layout = BF16_ROWS,
            .a = room->weights,
            .a_stride = KV_BLOCK_TOKENS,
            .b = room->values + tile->values,
            .b_stride = stride,
            .c = out,
            .c_stride = pass->scratch->lane_stride,
            .m = tile->count,
            .n = shape->value_dim,
            .k = span->count,
            .accumulate = true,
        };
        model->kernels->gemm_bf16(&gather);
        return;
    }
    struct gemm gather = {
        .a = room->scores,
        .a_stride = KV_BLOCK_TOKENS,
        .b = room->expanded + tile->values,
        .b_stride = stride,
        .c = out,
        .c_stride = pass->scratch->lane_stride,
        .m = tile->count,
        .n = shape->value_dim,
        .k = span->count,
        .accumulate = true,
    };
    model->kernels->gemm(&gather);
}

static void attend_tile(const struct pass *pass, const struct run *run, const struct kv_span *span,
                        const struct query_tile *tile, struct attention_scratch *room) {
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    const struct scratch *s = pass->scratch;
    size_t out_stride = s->lane_stride;
    float *out = s->attended + tile->token * out_stride + tile->head * shape->value_dim;
    score_tile(pass, tile, span, room);
    for (uint32_t i = 0; i < tile->count; i++) {
        float *scores = room->scores + i * KV_BLOCK_TOKENS, factor;
        uint32_t index = tile->token - run->first + i;                /* in the run */
        uint32_t query = run->first_position + index + run->kv_shift; /* where its KV row is */
        uint32_t seen = query - span->start + 1;
        if (seen > span->count) seen = span->count;
        size_t state = (size_t)(tile->token + i) * shape->heads + tile->head;
        float *max = &s->softmax_max[state], *sum = &s->softmax_sum[state];
        if (model->bf16_attention)
            factor = model->kernels->softmax_bf16(room->weights + (size_t)i * KV_BLOCK_TOKENS,
                                                  scores, seen, shape->attention_scale, max, sum);
        else
            attention_core_softmax(model->kernels, scores, seen, shape->attention_scale, max, sum,
                                   &factor);
        if (factor != 1) model->kernels->scale(out + i * out_stride, factor, shape->value_dim);
        if (!model->bf16_attention) memset(scores + seen, 0, (span->count - seen) * sizeof *scores);
    }
    gather_tile(pass, tile, span, out, room);
}

/* Turns `channels` channels of the span's rows into keys from row `first` on. BF16 values turn in
 * pairs, which leaves channels 2i and 2i + 1 of a token side by side. */
static void turn_keys(const struct model *model, uint32_t first, uint32_t channels,
                      const void *from, size_t stride, uint32_t count,
                      struct attention_scratch *room) {
    uint32_t beside = model->bf16_attention ? 2 : 1;
    model->kernels->transpose(room->keys + (size_t)first / beside * KV_BLOCK_TOKENS,
                              KV_BLOCK_TOKENS, from, stride / beside, count, channels / beside);
}

static void attend_block(const struct pass *pass, const struct run *run, const struct group *group,
                         const struct kv_span *span, struct attention_scratch *room) {
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    uint32_t head_rows = shape->nope_dim + shape->value_dim;
    uint32_t stride = pass->scratch->expanded_stride;
    uint32_t first_index = run->first_position + run->kv_shift;
    /* The first query that sees any of the block: */
    uint32_t from = span->start > first_index ? span->start - first_index : 0;
    const void *rope = model->bf16_attention
                           ? (const void *)(attention_core_values(model, span) + shape->kv_rank)
                           : (const void *)(room->rows + shape->kv_rank);
    turn_keys(model, shape->nope_dim, shape->rope_dim, rope, model->kv.width, span->count, room);
    for (uint32_t i = 0; i < group->heads; i++) {
        const void *keys = model->bf16_attention ? (const void *)(room->values + i * head_rows)
                                                 : (const void *)(room->expanded + i * head_rows);
        turn_keys(model, 0, shape->nope_dim, keys, stride, span->count, room);
        struct query_tile tile = {.head = group->first_head + i,
                                  .values = i * head_rows + shape->nope_dim};
        for (uint32_t first = from; first < run->token_count; first += ATTENTION_TILE) {
            uint32_t left = run->token_count - first;
            tile.token = run->first + first;
            tile.count = left < ATTENTION_TILE ? left : ATTENTION_TILE;
            attend_tile(pass, run, span, &tile, room);
        }
    }
}

static void begin_heads(const struct pass *pass, const struct run *run, const struct group *group) {
    const struct shape *shape = pass->model->shape;
    struct scratch *s = pass->scratch;
    for (uint32_t token = run->first; token < run->first + run->token_count; token++) {
        memset(s->attended + (size_t)token * s->lane_stride + group->first_head * shape->value_dim,
               0, group->heads * shape->value_dim * sizeof(float));
        for (uint32_t head = group->first_head; head < group->first_head + group->heads; head++) {
            s->softmax_max[(size_t)token * shape->heads + head] = -INFINITY;
            s->softmax_sum[(size_t)token * shape->heads + head] = 0;
        }
    }
}

static void finish_heads(const struct pass *pass, const struct run *run,
                         const struct group *group) {
    const struct shape *shape = pass->model->shape;
    struct scratch *s = pass->scratch;
    for (uint32_t token = run->first; token < run->first + run->token_count; token++)
        for (uint32_t head = group->first_head; head < group->first_head + group->heads; head++)
            pass->model->kernels->scale(
                s->attended + (size_t)token * s->lane_stride + head * shape->value_dim,
                1 / s->softmax_sum[(size_t)token * shape->heads + head], shape->value_dim);
}

static uint32_t group_count(const struct pass *pass) {
    return (uint32_t)divide_up(pass->model->shape->heads, pass->scratch->group_heads);
}

static void attend_items(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    struct attention_scratch *room = &pass->scratch->attention[member];
    for (uint32_t item = first; item < first + count; item++) {
        const struct run *run = &pass->batch->runs[item / group_count(pass)];
        struct group group = group_at(pass, item % group_count(pass));
        uint32_t end = run->first_position + run->token_count + run->kv_shift;
        begin_heads(pass, run, &group);
        for (uint32_t block = 0; block * KV_BLOCK_TOKENS < end; block++) {
            struct kv_span span = attention_core_span(pass, run, block, end);
            if (!span.count) continue;
            expand(pass, &group, &span, room);
            attend_block(pass, run, &group, &span, room);
        }
        finish_heads(pass, run, &group);
    }
}

void attention_prompt_run(const struct pass *pass) {
    uint32_t items = pass->batch->prompt_runs * group_count(pass);
    if (!items) return;
    team_run(pass->model->team, attend_items, (void *)(uintptr_t)pass, items, 1);
    pass_part(pass, PART_CORE_PROMPT);
}
