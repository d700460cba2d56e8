/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/compressed_index.h"

#include "base/number.h"
#include "compute/model/attention_compressed.h"
#include "compute/model/attention_index.h"
#include "compute/model/compressor.h"
#include "compute/model/kv_rounding.h"
#include "compute/model/rope.h"
#include "compute/model/token_loop.h"

#include <math.h>
#include <string.h>

static const struct layer_kind *compressed_index_kind(const struct pass *pass) {
    return &pass->model->shape->layer_kinds[pass->layer];
}

/* ---- keys ---- */

/* The key of an entry, before RoPE: V4's compressor has made it, and V4.1's is made of the entry.
 * */
static float *make_index_key(const struct pass *pass, uint32_t token) {
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    const bool own = attention->index_pool.norm != NULL;
    float *key = own ? s->index_pool_value + (size_t)token * s->index_pool_stride
                     : s->index_k + (size_t)token * s->index_k_stride;
    model->kernels->rmsnorm(key, key, own ? attention->index_pool.norm : attention->index_k_norm,
                            model->shape->index_dim, model->shape->rms_epsilon);
    return key;
}

static void write_index_keys(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    const uint32_t ratio = compressed_index_kind(pass)->ratio;
    float angles[ROPE_DIM_MAX];
    for (uint32_t token = first; token < first + count; token++) {
        const uint32_t position = pass->batch->positions[token], entry = position / ratio;
        if ((position + 1) % ratio) continue;
        float *key = make_index_key(pass, token);
        rope_turn(shape->compressed_frequency, shape->rope_dim, entry * ratio, angles);
        attention_compressed_rotate(model, angles, key, shape->index_dim);
        kv_rounding_key(model, key);
        compressed_rows_write(
            &model->kv, model->kernels, shape->index_dim,
            attention_compressed_row(pass, &pass->batch->runs[pass->batch->token_run[token]],
                                     COMPRESSED_KEY, entry),
            key);
    }
}

static void prepare_entries(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    struct scratch *s = pass->scratch;
    const enum input_kind kind = compute_kind(model, &compute_weights(pass)->attention.index_k);
    for (uint32_t token = first; token < first + count; token++)
        linear_prepare(model->kernels, kind, s->pool_value + (size_t)token * s->pool_stride,
                       shape_kv_width(model->shape), &s->input_shared, token);
}

void compressed_index_write_keys(const struct pass *pass) {
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    const uint32_t tokens = pass->batch->token_count;
    if (compressed_index_kind(pass)->index_source != pass->layer) return;
    if (attention->index_pool.norm) {
        compressor_run(pass, COMPRESS_INDEX_KEYS);
    } else {
        token_loop_run(model, prepare_entries, (void *)(uintptr_t)pass, tokens);
        token_loop_linear(model, &attention->index_k, &s->input_shared, s->index_k,
                          s->index_k_stride, tokens);
    }
    token_loop_run(model, write_index_keys, (void *)(uintptr_t)pass, tokens);
}

/* ---- queries ---- */

static void finish_index_queries(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    const struct scratch *s = pass->scratch;
    const uint32_t heads = shape->index_heads, width = shape->index_dim;
    const float scale = (float)(pow(heads, -0.5) * pow(width, -0.5));
    for (uint32_t token = first; token < first + count; token++) {
        const float *angles = attention_compressed_angles(pass) + (size_t)token * shape->rope_dim;
        float *q = s->index_q + (size_t)token * s->index_q_stride;
        model->kernels->scale(s->index_w + (size_t)token * s->index_w_stride, scale, heads);
        for (uint32_t head = 0; head < heads; head++, q += width) {
            attention_compressed_rotate(model, angles, q, width);
            kv_rounding_key(model, q);
            if (model->rounds_bf16) model->kernels->round_bf16(q, q, width);
        }
    }
}

/* ---- scores ---- */

/* Some tokens of a run that share one reading of the keys. */
struct index_strip {
    const struct pass *pass;
    const struct run *run;
    uint32_t first, count; /* internal indices */
};

static uint32_t visible(const struct pass *pass, uint32_t token) {
    return (pass->batch->positions[token] + 1) / compressed_index_kind(pass)->ratio;
}

static float *strip_scores(const struct index_strip *strip, uint32_t token) {
    const struct scratch *s = strip->pass->scratch;
    return s->index_scores + (size_t)(token - strip->first) * s->index_scores_stride;
}

/* A work item is KV_BLOCK_TOKENS keys, for all tokens of the strip. */
static void score_blocks(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct index_strip *strip = context;
    const struct pass *pass = strip->pass;
    const struct model *model = pass->model;
    struct attention_scratch *room = &pass->scratch->attention[member];
    const uint32_t width = model->shape->index_dim;
    const uint32_t end = visible(pass, strip->first + strip->count - 1);
    for (uint32_t block = first; block < first + count; block++) {
        const uint32_t start = block * KV_BLOCK_TOKENS;
        const uint32_t rows = min_u32(end - start, KV_BLOCK_TOKENS);
        for (uint32_t row = 0; row < rows; row++)
            compressed_rows_read(
                &model->kv, model->kernels, width,
                attention_compressed_row(pass, strip->run, COMPRESSED_KEY, start + row),
                room->index_rows + (size_t)row * width);
        model->kernels->transpose(room->index_keys, KV_BLOCK_TOKENS, room->index_rows, width, rows,
                                  width);
        for (uint32_t token = strip->first; token < strip->first + strip->count; token++)
            attention_index_score(pass, token, rows, room, strip_scores(strip, token) + start);
    }
}

/* ---- choice ---- */

uint32_t compressed_index_candidates(const float *scores, uint32_t end, uint32_t size,
                                     uint32_t most, float *best, uint32_t *blocks_out) {
    const uint32_t blocks = (uint32_t)divide_up(end, size), wanted = min_u32(blocks, most);
    for (uint32_t block = 0; block < blocks; block++) {
        best[block] = -INFINITY;
        for (uint32_t i = block * size; i < min_u32(end, (block + 1) * size); i++)
            best[block] = scores[i] > best[block] ? scores[i] : best[block];
    }
    if (!blocks) return 0;
    best[blocks - 1] = INFINITY;
    attention_index_pick(best, 0, blocks, wanted, blocks_out);
    return wanted;
}

uint32_t compressed_index_limit(float *scores, uint32_t end, uint32_t size, const uint32_t *blocks,
                                uint32_t count) {
    uint32_t left = 0, next = 0;
    for (uint32_t block = 0; block * size < end; block++) {
        const uint32_t first = block * size, last = min_u32(end, first + size);
        if (next < count && blocks[next] == block) {
            next++;
            left += last - first;
            continue;
        }
        for (uint32_t i = first; i < last; i++)
            scores[i] = -INFINITY;
    }
    return left;
}

static void choose_tokens(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct index_strip *strip = context;
    const struct pass *pass = strip->pass;
    const struct shape *shape = pass->model->shape;
    const struct scratch *s = pass->scratch;
    for (uint32_t token = strip->first + first; token < strip->first + first + count; token++) {
        float *scores = strip_scores(strip, token);
        uint32_t *blocks = s->candidates + (size_t)token * shape->candidate_blocks;
        const uint32_t end = visible(pass, token);
        uint32_t left = end;
        if (pass->layer == shape->candidate_layer)
            s->candidate_count[token] = compressed_index_candidates(
                scores, end, shape->candidate_block, shape->candidate_blocks,
                s->block_scores + (size_t)(token - strip->first) * s->index_scores_stride, blocks);
        if (pass->layer > shape->candidate_layer)
            left = compressed_index_limit(scores, end, shape->candidate_block, blocks,
                                          s->candidate_count[token]);
        s->chosen_count[token] = min_u32(left, shape->index_top_k);
        if (s->chosen_count[token])
            attention_index_pick(scores, 0, end, s->chosen_count[token],
                                 s->chosen + (size_t)token * shape->index_top_k);
    }
}

/* True if the token reads all entries, and no choice of blocks depends on scores. */
static bool reads_all(const struct pass *pass, uint32_t token) {
    const struct shape *shape = pass->model->shape;
    const uint32_t end = visible(pass, token);
    if (end > shape->index_top_k) return false;
    return pass->layer < shape->candidate_layer ||
           divide_up(end, shape->candidate_block) <= shape->candidate_blocks;
}

static void take_all_entries(const struct pass *pass, uint32_t token) {
    const struct shape *shape = pass->model->shape;
    const struct scratch *s = pass->scratch;
    const uint32_t end = visible(pass, token);
    s->chosen_count[token] = end;
    for (uint32_t i = 0; i < end; i++)
        s->chosen[(size_t)token * shape->index_top_k + i] = i;
    if (pass->layer != shape->candidate_layer) return;
    s->candidate_count[token] = (uint32_t)divide_up(end, shape->candidate_block);
    for (uint32_t i = 0; i < s->candidate_count[token]; i++)
        s->candidates[(size_t)token * shape->candidate_blocks + i] = i;
}

static void choose_of_run(const struct pass *pass, const struct run *run) {
    const struct model *model = pass->model;
    const uint32_t end = run->first + run->token_count;
    uint32_t token = run->first;
    for (; token < end && reads_all(pass, token); token++)
        take_all_entries(pass, token);
    for (; token < end; token += INDEX_TILE) {
        struct index_strip strip = {pass, run, token, min_u32(end - token, INDEX_TILE)};
        const uint32_t keys = visible(pass, token + strip.count - 1);
        team_run(model->team, score_blocks, &strip, (uint32_t)divide_up(keys, KV_BLOCK_TOKENS), 1);
        token_loop_run(model, choose_tokens, &strip, strip.count);
    }
}

void compressed_index_choose(const struct pass *pass) {
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    const uint32_t tokens = pass->batch->token_count;
    token_loop_linear(model, &compute_weights(pass)->attention.index_q, &s->input, s->index_q,
                      s->index_q_stride, tokens);
    token_loop_run(model, finish_index_queries, (void *)(uintptr_t)pass, tokens);
    for (uint32_t i = 0; i < pass->batch->run_count; i++)
        choose_of_run(pass, &pass->batch->runs[i]);
}

void compressed_index_attended(const struct pass *pass, uint32_t token, uint32_t *entries_out) {
    const struct scratch *s = pass->scratch;
    const uint32_t wanted = pass->model->shape->index_top_k;
    const struct layer_kind *kind = compressed_index_kind(pass);
    const uint32_t count =
        kind->ratio && kind->index_source == pass->layer ? s->chosen_count[token] : 0;
    for (uint32_t i = 0; i < wanted; i++)
        entries_out[i] = i < count ? s->chosen[(size_t)token * wanted + i] : UINT32_MAX;
}
