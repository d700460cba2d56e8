/* SPDX-License-Identifier: Apache-2.0
 * Core attention of generated tokens, absorbed form. Instead of expanding every latent, it projects
 * the query into the latent space, and projects the weighted sum of latents back.
 *
 *   q'[h] = W_k[h]^T q_nope[h];  score = scale * (q'[h].c[t] + q_pe[h].k_pe[t])
 *   u[h]  = sum_t p[t] c[t];     o[h]  = W_v[h] u[h]
 *
 * A work item is one run and some of its heads. The number of heads depends on the threads, but
 * changes no result, as heads are independent. Only rows up to the token's own position are read.
 */
#include "compute/model/attention_generated.h"

#include "compute/model/attention_core.h"
#include "compute/model/attention_index.h"
#include "compute/model/token_loop.h"

#include <math.h>
#include <string.h>

#include "base/number.h"

/* A tile of generated tokens: internal indices [first, first + count). */
struct tile {
    const struct pass *pass;
    uint32_t first, count;
    uint32_t first_run, run_count; /* runs with tokens in the tile */
    uint32_t item_heads;           /* heads of an item */
};

static void attention_generated_take_in(const struct tile *tile) {
    const struct model *model = tile->pass->model;
    const struct scratch *s = tile->pass->scratch;
    const struct shape *shape = model->shape;
    for (uint32_t head = 0; head < shape->heads; head++) {
        const float *q =
            s->q + (size_t)tile->first * s->micro_batch_stride + head * shape_query_dim(shape);
        struct linear_input input = linear_plain(q, s->micro_batch_stride, model->rounds_bf16);
        s->jobs[head] = linear_job(&compute_weights(tile->pass)->attention.absorb_k[head], &input,
                                   s->absorb_q + (size_t)head * s->absorb_q_stride,
                                   (size_t)shape->heads * s->absorb_q_stride, tile->count);
    }
    linear_run(model->kernels, model->team, s->jobs, shape->heads);
}

/* With products of BF16 values, queries are rounded when they are transposed. */
static void finish_taking_in(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct tile *tile = context;
    const struct model *model = tile->pass->model;
    const struct scratch *s = tile->pass->scratch;
    const struct shape *shape = model->shape;
    for (uint32_t i = first; i < first + count; i++) {
        const float *q = s->q + (size_t)(tile->first + i) * s->micro_batch_stride;
        for (uint32_t head = 0; head < shape->heads; head++) {
            float *absorbed = s->absorb_q + ((size_t)i * shape->heads + head) * s->absorb_q_stride;
            if (model->rounds_bf16) model->kernels->round_bf16(absorbed, absorbed, shape->kv_rank);
            memcpy(absorbed + shape->kv_rank, q + head * shape_query_dim(shape) + shape->nope_dim,
                   shape->rope_dim * sizeof(float));
        }
    }
}

/* The number of partial sums of a score: one of even and one of odd pairs of channels, or just
 * one. */
static uint32_t score_sums(const struct model *model) {
    return model->bf16_attention && model->kernels->few_columns == BF16_FOURS ? 2 : 1;
}

/* Columns of the transposed queries, rounded up to whole AMX tiles. */
static uint32_t score_columns(const struct model *model, uint32_t heads) {
    bool whole = model->bf16_attention && model->kernels->few_columns == BF16_PAIRS;
    return whole ? (uint32_t)round_up(heads, 16) : heads;
}

/* Transposes a strip's queries, so that channels are rows: [kv_width][heads, rounded up to 16]; for
 * BF16 values [kv_width / 4][heads][4], or [kv_width / 2][heads, rounded up to 16][2]. */
static void turn_strip(const struct tile *tile, uint32_t token, uint32_t first_head, uint32_t heads,
                       struct attention_scratch *room, float *to) {
    const struct model *model = tile->pass->model;
    const struct kernels *kernels = model->kernels;
    const struct scratch *s = tile->pass->scratch;
    size_t first = (size_t)(token - tile->first) * model->shape->heads + first_head;
    const float *absorbed = s->absorb_q + first * s->absorb_q_stride;
    const uint32_t width = shape_kv_width(model->shape), columns = (uint32_t)round_up(heads, 16);
    if (!model->bf16_attention) {
        kernels->transpose(to, columns, absorbed, s->absorb_q_stride, heads, width);
        return;
    }
    const uint32_t rank = model->shape->kv_rank, query_dim = shape_query_dim(model->shape);
    const float *q = s->q + (size_t)token * s->micro_batch_stride + (size_t)first_head * query_dim;
    for (uint32_t head = 0; head < heads; head++, q += query_dim) {
        uint16_t *query = room->query + (size_t)head * width;
        kernels->bf16_from_float(query, absorbed + head * s->absorb_q_stride, rank);
        kernels->bf16_from_float(query + rank, q + model->shape->nope_dim, width - rank);
    }
    if (score_sums(model) == 1) { /* a pair of channels is moved like a float */
        kernels->transpose(to, columns, (const float *)(const void *)room->query, width / 2, heads,
                           width / 2);
        return;
    }
    for (uint32_t head = 0; head < heads; head++)
        for (uint32_t c = 0; c < width; c += 4)
            memcpy((uint16_t *)(void *)to + (size_t)c * heads + 4 * head,
                   room->query + (size_t)head * width + c, 4 * sizeof(uint16_t));
}

/* The number of heads in the strip that begins with head `first`: at most CORE_HEADS, so that
 * queries and scores of a strip stay in near caches. */
static uint32_t strip_heads(uint32_t first, uint32_t heads) {
    return heads - first < CORE_HEADS ? heads - first : CORE_HEADS;
}

static float *strip_queries(const struct model *model, struct attention_scratch *room,
                            uint32_t first) {
    return room->queries + (size_t)first * shape_kv_width(model->shape);
}

static float *head_scores(const struct model *model, struct attention_scratch *room,
                          uint32_t head) {
    return room->scores + (size_t)head * score_sums(model) * room->scores_stride;
}

static void turn_queries(const struct tile *tile, uint32_t token, uint32_t first_head,
                         uint32_t heads, struct attention_scratch *room) {
    for (uint32_t first = 0; first < heads; first += CORE_HEADS)
        turn_strip(tile, token, first_head + first, strip_heads(first, heads), room,
                   strip_queries(tile->pass->model, room, first));
}

/* Computes the scores of heads from `first` on: scores[heads][sums][seen]; the first sums become
 * the scores. The chunk's rows multiply the absorbed queries, so rows are read in their own layout.
 * In both cases a sum runs in the order of the channels. */
static void score_chunk(const struct model *model, const struct core_chunk *chunk, uint32_t first,
                        uint32_t heads, uint32_t seen, struct attention_scratch *room) {
    const float *queries = strip_queries(model, room, first);
    float *scores = head_scores(model, room, first);
    uint32_t width = shape_kv_width(model->shape);
    uint32_t sums = score_sums(model), columns = sums * score_columns(model, heads);
    size_t stride = round_up(columns, 16);
    if (model->bf16_attention) {
        struct gemm_bf16 score = {
            .layout = model->kernels->few_columns,
            .a = chunk->pieces[0],
            .a_stride = width,
            .b = (const uint16_t *)(const void *)queries,
            .b_stride = (size_t)columns * 2,
            .c = room->keys,
            .c_stride = stride,
            .m = seen,
            .n = columns / sums,
            .k = width,
            .pieces = chunk->pieces,
        };
        model->kernels->gemm_bf16(&score);
    } else {
        struct gemm score = {
            .a = chunk->floats,
            .a_bf16 = chunk->floats ? NULL : chunk->pieces[0],
            .a_stride = width,
            .b = queries,
            .b_stride = stride,
            .c = room->keys,
            .c_stride = stride,
            .m = seen,
            .n = heads,
            .k = width,
        };
        model->kernels->gemm(&score);
    }
    model->kernels->transpose(scores, room->scores_stride, room->keys, stride, seen, columns);
    for (uint32_t i = 0; sums == 2 && i < heads; i++)
        model->kernels->add_scaled(scores + 2 * i * room->scores_stride,
                                   scores + (2 * i + 1) * room->scores_stride, 1, seen);
}

/* u += the chunk's latents, weighted by the exponentials in `room`. */
static void gather_chunk(const struct tile *tile, const struct core_chunk *chunk, uint32_t heads,
                         uint32_t seen, float *u, struct attention_scratch *room) {
    const struct model *model = tile->pass->model;
    uint32_t u_stride = tile->pass->scratch->absorb_u_stride;
    if (model->bf16_attention) {
        struct gemm_bf16 gather = {
            .layout = BF16_ROWS,
            .a = room->weights,
            .a_stride = room->weights_stride,
            .b = chunk->pieces[0],
            .b_stride = model->kv.width,
            .c = u,
            .c_stride = u_stride,
            .m = heads,
            .n = model->shape->kv_rank,
            .k = seen,
            .accumulate = !chunk->is_first,
            .pieces = chunk->pieces,
            .ahead = chunk->ahead_rows ? chunk->ahead : NULL,
        };
        model->kernels->gemm_bf16(&gather);
        return;
    }
    struct gemm gather = {
        .a = room->scores,
        .a_stride = room->scores_stride,
        .b = chunk->floats,
        .b_bf16 = chunk->floats ? NULL : chunk->pieces[0],
        .b_stride = model->kv.width,
        .c = u,
        .c_stride = u_stride,
        .m = heads,
        .n = model->shape->kv_rank,
        .k = seen,
        .accumulate = !chunk->is_first,
    };
    model->kernels->gemm(&gather);
}

/* Prefetches a head's share of the next chunk's keys. The next chunk's latents are prefetched while
 * this chunk's are weighted. */
static void fetch_keys(const struct model *model, const struct core_chunk *chunk, uint32_t head,
                       uint32_t heads) {
    const uint32_t rank = model->shape->kv_rank, width = model->kv.width;
    for (uint32_t row = head; row < chunk->ahead_rows; row += heads) {
        const uint16_t *from =
            chunk->ahead[row / KV_BLOCK_TOKENS] + row % KV_BLOCK_TOKENS * (size_t)width;
        for (uint32_t c = rank; c < width; c += 32)
            __builtin_prefetch(from + c, 0, 2);
    }
}

/* Turns a head's scores of a chunk into weights, and rescales the sums so far to the new
 * maximum. */
static void weigh_head(const struct tile *tile, size_t state, uint32_t head, uint32_t seen,
                       bool is_first, float *u, struct attention_scratch *room) {
    const struct model *model = tile->pass->model;
    const struct scratch *s = tile->pass->scratch;
    const float scale = model->shape->attention_scale;
    float *scores = head_scores(model, room, head), factor;
    float *max = &s->softmax_max[state], *sum = &s->softmax_sum[state];
    if (model->bf16_attention)
        factor = model->kernels->softmax_bf16(room->weights + head * room->weights_stride, scores,
                                              seen, scale, max, sum);
    else
        attention_core_softmax(model->kernels, scores, seen, scale, max, sum, &factor);
    if (factor != 1 && !is_first) model->kernels->scale(u, factor, model->shape->kv_rank);
}

/* Attention of one token to a chunk, for `heads` heads from first_head on. */
static void attend_token(const struct tile *tile, uint32_t token, uint32_t first_head,
                         uint32_t heads, const struct core_chunk *chunk, uint32_t seen,
                         struct attention_scratch *room) {
    const struct model *model = tile->pass->model;
    const struct scratch *s = tile->pass->scratch;
    const uint32_t all = model->shape->heads;
    float *u =
        s->absorb_u + ((size_t)(token - tile->first) * all + first_head) * s->absorb_u_stride;
    for (uint32_t first = 0; first < heads; first += CORE_HEADS) {
        uint32_t count = strip_heads(first, heads);
        score_chunk(model, chunk, first, count, seen, room);
        for (uint32_t head = first; head < first + count; head++) {
            weigh_head(tile, (size_t)token * all + first_head + head, head, seen, chunk->is_first,
                       u + head * s->absorb_u_stride, room);
            fetch_keys(model, chunk, head, heads);
        }
    }
    gather_chunk(tile, chunk, heads, seen, u, room);
}

static void attention_generated_begin_heads(const struct tile *tile, uint32_t token,
                                            uint32_t first_head, uint32_t heads) {
    const struct scratch *s = tile->pass->scratch;
    uint32_t all = tile->pass->model->shape->heads;
    for (uint32_t head = first_head; head < first_head + heads; head++) {
        s->softmax_max[(size_t)token * all + head] = -INFINITY;
        s->softmax_sum[(size_t)token * all + head] = 0;
    }
}

static void attention_generated_finish_heads(const struct tile *tile, uint32_t token,
                                             uint32_t first_head, uint32_t heads) {
    const struct model *model = tile->pass->model;
    const struct scratch *s = tile->pass->scratch;
    uint32_t all = model->shape->heads;
    for (uint32_t head = first_head; head < first_head + heads; head++) {
        float *u = s->absorb_u + ((size_t)(token - tile->first) * all + head) * s->absorb_u_stride;
        model->kernels->scale(u, 1 / s->softmax_sum[(size_t)token * all + head],
                              model->shape->kv_rank);
        if (model->rounds_bf16) model->kernels->round_bf16(u, u, model->shape->kv_rank);
    }
}

/* Attention of one token to the rows that the indexer chose for it. */
static void attend_chosen(const struct tile *tile, const struct run *run, uint32_t token,
                          uint32_t first_head, uint32_t heads, struct attention_scratch *room) {
    const struct model *model = tile->pass->model;
    const uint32_t *chosen = attention_index_chosen(tile->pass, token);
    const uint32_t wanted = model->shape->index_top_k;
    const uint32_t most = attention_core_blocks(model) * KV_BLOCK_TOKENS;
    turn_queries(tile, token, first_head, heads, room);
    for (uint32_t first = 0; first < wanted; first += most) {
        struct core_chunk chunk;
        attention_core_gather(tile->pass, run, chosen + first, min_u32(wanted - first, most),
                              &chunk, room->gathered, room->rows);
        chunk.is_first = !first;
        attend_token(tile, token, first_head, heads, &chunk, chunk.rows, room);
    }
}

static void attention_generated_attend_run(const struct tile *tile, const struct run *run,
                                           uint32_t first_head, uint32_t heads,
                                           struct attention_scratch *room) {
    uint32_t tile_end = tile->first + tile->count, run_end = run->first + run->token_count;
    uint32_t first = run->first > tile->first ? run->first : tile->first;
    uint32_t last = run_end < tile_end ? run_end : tile_end;
    uint32_t turned = UINT32_MAX; /* the token with its queries in room->queries */
    for (uint32_t token = first; token < last; token++)
        attention_generated_begin_heads(tile, token, first_head, heads);
    uint32_t dense = min_u32(run->first + attention_index_dense(tile->pass, run), last);
    for (uint32_t token = max_u32(first, dense); token < last; token++)
        attend_chosen(tile, run, token, first_head, heads, room);
    struct core_walk walk = attention_core_begin(tile->pass, run, first, max_u32(first, dense));
    while (attention_core_next(&walk)) {
        if (walk.token != turned) turn_queries(tile, walk.token, first_head, heads, room);
        turned = walk.token;
        attend_token(tile, walk.token, first_head, heads, &walk.chunk, walk.seen, room);
    }
    for (uint32_t token = first; token < last; token++)
        attention_generated_finish_heads(tile, token, first_head, heads);
}

static void attention_generated_attend_items(void *context, uint32_t first, uint32_t count,
                                             uint32_t member) {
    const struct tile *tile = context;
    const struct model *model = tile->pass->model;
    uint32_t per_run = (uint32_t)divide_up(model->shape->heads, tile->item_heads);
    for (uint32_t item = first; item < first + count; item++) {
        const struct run *run = &tile->pass->batch->runs[tile->first_run + item / per_run];
        uint32_t head = item % per_run * tile->item_heads;
        uint32_t left = model->shape->heads - head;
        attention_generated_attend_run(tile, run, head,
                                       left < tile->item_heads ? left : tile->item_heads,
                                       &tile->pass->scratch->attention[member]);
    }
}

static void attention_generated_take_out(const struct tile *tile) {
    const struct model *model = tile->pass->model;
    const struct scratch *s = tile->pass->scratch;
    uint32_t heads = model->shape->heads, value_dim = model->shape->value_dim;
    const bool pads =
        value_dim % MATMUL_PANEL != 0; /* a head would overwrite the next one's values */
    float *attended = s->attended + (size_t)tile->first * s->micro_batch_stride;
    for (uint32_t head = 0; head < heads; head++) {
        struct linear_input input =
            linear_plain(s->absorb_u + (size_t)head * s->absorb_u_stride,
                         (size_t)heads * s->absorb_u_stride, model->rounds_bf16);
        s->jobs[head] =
            linear_job(&compute_weights(tile->pass)->attention.absorb_v[head], &input,
                       pads ? s->absorb_o + (size_t)head * s->value_stride
                            : attended + (size_t)head * value_dim,
                       pads ? (size_t)heads * s->value_stride : s->micro_batch_stride, tile->count);
    }
    linear_run(model->kernels, model->team, s->jobs, heads);
    for (uint32_t i = 0; pads && i < tile->count; i++)
        for (uint32_t head = 0; head < heads; head++)
            memcpy(attended + i * s->micro_batch_stride + head * value_dim,
                   s->absorb_o + ((size_t)i * heads + head) * s->value_stride,
                   value_dim * sizeof(float));
}

static void attention_generated_run_tile(struct tile *tile) {
    const struct model *model = tile->pass->model;
    const struct batch *batch = tile->pass->batch;
    uint32_t threads = team_threads(model->team), heads = model->shape->heads;
    tile->first_run = batch->token_run[tile->first];
    tile->run_count = batch->token_run[tile->first + tile->count - 1] - tile->first_run + 1;
    tile->item_heads = (uint32_t)divide_up(heads, divide_up(threads, tile->run_count));
    attention_generated_take_in(tile);
    if (!model->bf16_attention) token_loop_run(model, finish_taking_in, tile, tile->count);
    pass_part(tile->pass, PART_ABSORB_QUERY);
    team_run(model->team, attention_generated_attend_items, tile,
             tile->run_count * (uint32_t)divide_up(heads, tile->item_heads), 1);
    pass_part(tile->pass, PART_CORE);
    attention_generated_take_out(tile);
    pass_part(tile->pass, PART_ABSORB_VALUE);
}

void attention_generated_run(const struct pass *pass, uint32_t first, uint32_t end) {
    const uint32_t tile_tokens = pass->scratch->absorb_tile;
    for (; first < end; first += tile_tokens) {
        uint32_t left = end - first;
        struct tile tile = {
            .pass = pass, .first = first, .count = left < tile_tokens ? left : tile_tokens};
        attention_generated_run_tile(&tile);
    }
}
