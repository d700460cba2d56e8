/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/attention_index.h"

#include "compute/model/attention_core.h"
#include "compute/model/token_loop.h"

#include "base/number.h"

#include <math.h>
#include <string.h>

#define LAYER_NORM_EPSILON 1e-6

/* Prepares rows of scratch.normed for a linear, in a buffer that attention needs no more. */
struct index_input {
    const struct pass *pass;
    enum input_kind kind;
};

static void attention_index_prepare_tokens(void *context, uint32_t first, uint32_t count,
                                           uint32_t member) {
    const struct index_input *of = context;
    const struct model *model = of->pass->model;
    const struct scratch *s = of->pass->scratch;
    const uint32_t hidden = model->shape->hidden;
    for (uint32_t token = first; token < first + count; token++)
        linear_prepare(model->kernels, of->kind, s->normed + (size_t)token * hidden, hidden,
                       &s->input_shared, token);
}

static void attention_index_prepare(const struct pass *pass, enum input_kind kind) {
    struct index_input input = {pass, kind};
    token_loop_run(pass->model, attention_index_prepare_tokens, &input, pass->batch->token_count);
}

void attention_index_layer_norm(float *x, const float *weight, const float *bias, uint32_t count) {
    double mean = 0, variance = 0;
    for (uint32_t i = 0; i < count; i++)
        mean += (double)x[i];
    mean /= count;
    for (uint32_t i = 0; i < count; i++)
        variance += ((double)x[i] - mean) * ((double)x[i] - mean);
    double factor = 1 / sqrt(variance / count + LAYER_NORM_EPSILON);
    for (uint32_t i = 0; i < count; i++)
        x[i] = (float)(((double)x[i] - mean) * factor) * weight[i] + bias[i];
}

void attention_index_hadamard(float *x, uint32_t count) {
    const float scale = (float)(1 / sqrt((double)count));
    for (uint32_t half = 1; half < count; half *= 2)
        for (uint32_t block = 0; block < count; block += 2 * half)
            for (uint32_t i = block; i < block + half; i++) {
                float a = x[i], b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
    for (uint32_t i = 0; i < count; i++)
        x[i] *= scale;
}

/* Rotates a key or a head's query of the token; for E4M3 keys it transforms it, too. */
static void attention_index_rotate(const struct pass *pass, uint32_t token, float *x) {
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    model->kernels->rotate(x, pass->scratch->angles + (size_t)token * shape->rope_dim,
                           shape->rope_dim / 2, shape->index_rope_interleaved);
    if (kv_pages_index_element(&model->kv) == KV_ELEMENT_E4M3)
        attention_index_hadamard(x, shape->index_dim);
}

/* A layer that shares another one's choice has no keys. Its rows are zeros, so that a block's bytes
 * depend on nothing else. */
static void attention_index_clear_rows(const struct pass *pass) {
    struct model *model = pass->model;
    for (uint32_t token = 0; token < pass->batch->token_count; token++)
        memset(attention_core_own_row(pass, token, KV_GROUP_INDEX), 0,
               kv_group_row_bytes(&model->kv.format.groups[KV_GROUP_INDEX]));
}

static void attention_index_write_tokens(void *context, uint32_t first, uint32_t count,
                                         uint32_t member) {
    const struct pass *pass = context;
    struct model *model = pass->model;
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    for (uint32_t token = first; token < first + count; token++) {
        float *key = pass->scratch->index_k + (size_t)token * pass->scratch->index_k_stride;
        attention_index_layer_norm(key, attention->index_k_norm, attention->index_k_bias,
                                   model->shape->index_dim);
        attention_index_rotate(pass, token, key);
        kv_pages_write(&model->kv, model->kernels, KV_GROUP_INDEX,
                       attention_core_own_row(pass, token, KV_GROUP_INDEX), key);
    }
}

void attention_index_write_rows(const struct pass *pass) {
    struct scratch *s = pass->scratch;
    if (!shape_has_index(pass->model->shape)) return;
    if (!shape_has_own_index(pass->model->shape, pass->layer)) {
        attention_index_clear_rows(pass);
        return;
    }
    const struct packed_matrix *index_k = &compute_weights(pass)->attention.index_k;
    attention_index_prepare(pass, compute_kind(pass->model, index_k));
    token_loop_linear(pass->model, index_k, &s->input_shared, s->index_k, s->index_k_stride,
                      pass->batch->token_count);
    token_loop_run(pass->model, attention_index_write_tokens, (void *)(uintptr_t)pass,
                   pass->batch->token_count);
}

uint32_t attention_index_dense(const struct pass *pass, const struct run *run) {
    const struct shape *shape = pass->model->shape;
    if (!shape_has_index(shape)) return run->token_count;
    if (run->first_position >= shape->index_top_k) return 0;
    return min_u32(run->token_count, shape->index_top_k - run->first_position);
}

const uint32_t *attention_index_chosen(const struct pass *pass, uint32_t token) {
    return pass->scratch->chosen + (size_t)token * pass->model->shape->index_top_k;
}

void attention_index_attended(const struct pass *pass, uint32_t token, uint32_t *positions_out) {
    const struct run *run = &pass->batch->runs[pass->batch->token_run[token]];
    const uint32_t wanted = pass->model->shape->index_top_k;
    const uint32_t *chosen = attention_index_chosen(pass, token);
    bool dense = token - run->first < attention_index_dense(pass, run);
    for (uint32_t i = 0; i < wanted; i++)
        if (!dense)
            positions_out[i] = chosen[i] - run->kv_shift;
        else
            positions_out[i] = i <= pass->batch->positions[token] ? i : UINT32_MAX;
}

/* ---- queries ---- */

static void attention_index_take_latents(void *context, uint32_t first, uint32_t count,
                                         uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    enum input_kind kind = compute_kind(model, &compute_weights(pass)->attention.index_q);
    for (uint32_t token = first; token < first + count; token++)
        linear_prepare(model->kernels, kind, s->q_a + (size_t)token * s->q_a_stride,
                       model->shape->q_rank, &s->input, token);
}

/* Rounds a query as the keys are rounded. */
static void attention_index_round(const struct model *model, float *x) {
    const uint32_t width = model->shape->index_dim;
    float scales[LIMIT_INDEX_DIM / QUANT_GROUP + 1];
    if (kv_pages_index_element(&model->kv) != KV_ELEMENT_E4M3) {
        if (model->rounds_bf16) model->kernels->round_bf16(x, x, width);
        return;
    }
    model->kernels->quantize_e4m3(x, scales, x, width, true);
    for (uint32_t i = 0; i < width; i++)
        x[i] *= scales[i / QUANT_GROUP];
}

static void attention_index_finish_queries(void *context, uint32_t first, uint32_t count,
                                           uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    const uint32_t heads = model->shape->index_heads, width = model->shape->index_dim;
    const float scale = (float)(pow(heads, -0.5) * pow(width, -0.5));
    for (uint32_t token = first; token < first + count; token++) {
        float *q = s->index_q + (size_t)token * s->index_q_stride;
        model->kernels->scale(s->index_w + (size_t)token * s->index_w_stride, scale, heads);
        for (uint32_t head = 0; head < heads; head++, q += width) {
            attention_index_rotate(pass, token, q);
            attention_index_round(model, q);
        }
    }
}

static void attention_index_begin_queries(const struct pass *pass) {
    const struct model *model = pass->model;
    struct scratch *s = pass->scratch;
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    const uint32_t tokens = pass->batch->token_count;
    if (compute_kind(model, &attention->index_q) != compute_kind(model, &attention->q_b))
        token_loop_run(model, attention_index_take_latents, (void *)(uintptr_t)pass, tokens);
    token_loop_linear(model, &attention->index_q, &s->input, s->index_q, s->index_q_stride, tokens);
    const enum input_kind kind = compute_kind(model, &attention->index_weights);
    if (kind != compute_kind(model, &attention->index_k)) attention_index_prepare(pass, kind);
    token_loop_linear(model, &attention->index_weights, &s->input_shared, s->index_w,
                      s->index_w_stride, tokens);
    token_loop_run(model, attention_index_finish_queries, (void *)(uintptr_t)pass, tokens);
}

/* ---- scores ---- */

/* Some tokens of a run, all with more rows than they attend to. */
struct index_tile {
    const struct pass *pass;
    const struct run *run;
    uint32_t first, count; /* internal indices */
};

/* One past the KV index of a token's own row. */
static uint32_t attention_index_end(const struct index_tile *tile, uint32_t token) {
    return tile->pass->batch->positions[token] + tile->run->kv_shift + 1;
}

static float *attention_index_scores(const struct index_tile *tile, uint32_t token) {
    const struct scratch *s = tile->pass->scratch;
    return s->index_scores + (size_t)(token - tile->first) * s->index_scores_stride;
}

/* The keys of a block as columns: room->index_keys [index_dim][KV_BLOCK_TOKENS]. */
static void attention_index_load(const struct index_tile *tile, uint32_t block, uint32_t rows,
                                 struct attention_scratch *room) {
    const struct model *model = tile->pass->model;
    const uint32_t width = model->shape->index_dim;
    for (uint32_t row = 0; row < rows; row++)
        kv_pages_read(&model->kv, model->kernels, KV_GROUP_INDEX,
                      attention_core_row(tile->pass, tile->run, block * KV_BLOCK_TOKENS + row,
                                         KV_GROUP_INDEX),
                      room->index_rows + (size_t)row * width);
    model->kernels->transpose(room->index_keys, KV_BLOCK_TOKENS, room->index_rows, width, rows,
                              width);
}

void attention_index_score(const struct pass *pass, uint32_t token, uint32_t rows,
                           struct attention_scratch *room, float *scores) {
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    const uint32_t heads = model->shape->index_heads, width = model->shape->index_dim;
    const float *weights = s->index_w + (size_t)token * s->index_w_stride;
    struct gemm product = {
        .a = s->index_q + (size_t)token * s->index_q_stride,
        .a_stride = width,
        .b = room->index_keys,
        .b_stride = KV_BLOCK_TOKENS,
        .c = room->index_products,
        .c_stride = KV_BLOCK_TOKENS,
        .m = heads,
        .n = rows,
        .k = width,
    };
    model->kernels->gemm(&product);
    model->kernels->sum_positive(scores, room->index_products, KV_BLOCK_TOKENS, weights, heads,
                                 rows);
}

/* A work item is a block of keys, for all tokens of the tile. */
static void attention_index_score_blocks(void *context, uint32_t first, uint32_t count,
                                         uint32_t member) {
    const struct index_tile *tile = context;
    struct attention_scratch *room = &tile->pass->scratch->attention[member];
    const uint32_t last = tile->first + tile->count - 1, end = attention_index_end(tile, last);
    for (uint32_t block = first; block < first + count; block++) {
        const uint32_t start = block * KV_BLOCK_TOKENS;
        attention_index_load(tile, block, min_u32(end - start, KV_BLOCK_TOKENS), room);
        for (uint32_t token = tile->first; token <= last; token++) {
            uint32_t own_end = attention_index_end(tile, token);
            if (own_end > start)
                attention_index_score(tile->pass, token, min_u32(own_end - start, KV_BLOCK_TOKENS),
                                      room, attention_index_scores(tile, token) + start);
        }
    }
}

/* ---- choice ---- */

/* A float's bits in an order of unsigned numbers. */
static uint32_t attention_index_order(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* The order of the wanted-th largest of count scores, and in *equal_out how many scores of that
 * order are among the wanted: it is found byte by byte, each by a histogram. */
static uint32_t attention_index_threshold(const float *scores, uint32_t count, uint32_t wanted,
                                          uint32_t *equal_out) {
    uint32_t threshold = 0, known = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        uint32_t histogram[256] = {0}, digit = 255;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t order = attention_index_order(scores[i]);
            if ((order & known) == threshold) histogram[order >> shift & 255]++;
        }
        for (; digit && histogram[digit] < wanted; digit--)
            wanted -= histogram[digit];
        threshold |= digit << shift;
        known |= 255u << shift;
    }
    *equal_out = wanted;
    return threshold;
}

void attention_index_pick(const float *scores, uint32_t first, uint32_t end, uint32_t wanted,
                          uint32_t *chosen_out) {
    uint32_t equal;
    uint32_t threshold = attention_index_threshold(scores + first, end - first, wanted, &equal);
    for (uint32_t i = first; i < end; i++) {
        uint32_t order = attention_index_order(scores[i]);
        if (order > threshold || (order == threshold && equal && equal--)) *chosen_out++ = i;
    }
}

static void attention_index_choose_tokens(void *context, uint32_t first, uint32_t count,
                                          uint32_t member) {
    const struct index_tile *tile = context;
    const uint32_t wanted = tile->pass->model->shape->index_top_k;
    for (uint32_t token = tile->first + first; token < tile->first + first + count; token++)
        attention_index_pick(attention_index_scores(tile, token), tile->run->kv_shift,
                             attention_index_end(tile, token), wanted,
                             tile->pass->scratch->chosen + (size_t)token * wanted);
}

static void attention_index_choose_run(const struct pass *pass, const struct run *run) {
    const struct model *model = pass->model;
    uint32_t token = run->first + attention_index_dense(pass, run);
    const uint32_t end = run->first + run->token_count;
    for (; token < end; token += INDEX_TILE) {
        struct index_tile tile = {pass, run, token, min_u32(end - token, INDEX_TILE)};
        uint32_t blocks = (uint32_t)divide_up(
            attention_index_end(&tile, tile.first + tile.count - 1), KV_BLOCK_TOKENS);
        team_run(model->team, attention_index_score_blocks, &tile, blocks, 1);
        pass_part(pass, PART_INDEX_SCORE);
        token_loop_run(model, attention_index_choose_tokens, &tile, tile.count);
        pass_part(pass, PART_INDEX_CHOICE);
    }
}

void attention_index_choose(const struct pass *pass) {
    const struct batch *batch = pass->batch;
    bool any = false;
    if (!shape_has_own_index(pass->model->shape, pass->layer)) return;
    for (uint32_t i = 0; i < batch->run_count; i++)
        any |= attention_index_dense(pass, &batch->runs[i]) < batch->runs[i].token_count;
    if (!any) return;
    attention_index_begin_queries(pass);
    pass_part(pass, PART_INDEX_QUERY);
    for (uint32_t i = 0; i < batch->run_count; i++)
        attention_index_choose_run(pass, &batch->runs[i]);
}
