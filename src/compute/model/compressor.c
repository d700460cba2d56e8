/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/compressor.h"

#include "base/number.h"
#include "compute/model/token_loop.h"

#include <math.h>
#include <string.h>

#define PIECE 64 /* channels of a work item */

void compressor_clear(struct compressor_sum sum, uint32_t count) {
    for (uint32_t c = 0; c < count; c++) {
        sum.largest[c] = -INFINITY;
        sum.sum[c] = sum.weighted[c] = 0;
    }
}

void compressor_add(struct compressor_sum sum, const float *a, const float *gate,
                    const float *positions, uint32_t count) {
    for (uint32_t c = 0; c < count; c++) {
        float z = positions ? gate[c] + positions[c] : gate[c];
        float largest = sum.largest[c] > z ? sum.largest[c] : z;
        float before = kernels_exp(sum.largest[c] - largest), now = kernels_exp(z - largest);
        sum.sum[c] = sum.sum[c] * before + now;
        sum.weighted[c] = sum.weighted[c] * before + now * a[c];
        sum.largest[c] = largest;
    }
}

struct pooling {
    const struct pass *pass;
    const struct pool_weights *weights;
    enum compressor_kind which;
    float *value, *gate;
    uint32_t stride, width, ratio, pieces;
    bool overlaps;
};

static struct compressor_sum sums_at(float *floats, uint32_t part) {
    float *at = floats + (size_t)part * 3 * PIECE;
    return (struct compressor_sum){at, at + PIECE, at + (size_t)2 * PIECE};
}

/* Copies a piece's sums between a slot's state [numbers][width] and [numbers][PIECE]. */
static void copy_sums(const struct pooling *pool, float *state, float *piece, uint32_t first,
                      uint32_t count, bool to_state) {
    const uint32_t numbers = pool->overlaps ? 6 : 3;
    for (uint32_t i = 0; i < numbers; i++) {
        float *at = state + (size_t)i * pool->width + first, *here = piece + (size_t)i * PIECE;
        memcpy(to_state ? at : here, to_state ? here : at, count * sizeof *at);
    }
}

/* Adds a token. If it completes its group, e goes to the token's value. */
static void add_token(const struct pooling *pool, uint32_t token, uint32_t position, uint32_t first,
                      uint32_t count, float *piece) {
    const uint32_t halves = pool->overlaps ? 2 : 1, own = (halves - 1) * pool->width;
    const uint32_t place = position % pool->ratio;
    float *value = pool->value + (size_t)token * pool->stride + first;
    const float *gate = pool->gate + (size_t)token * pool->stride + first;
    const float *positions = pool->weights->positions;
    if (positions) positions += (size_t)place * halves * pool->width + first;
    compressor_add(sums_at(piece, 0), value + own, gate + own, positions ? positions + own : NULL,
                   count);
    if (pool->overlaps) compressor_add(sums_at(piece, 1), value, gate, positions, count);
    if (place != pool->ratio - 1) return;
    struct compressor_sum done = sums_at(piece, 0), next = sums_at(piece, 1);
    for (uint32_t c = 0; c < count; c++)
        value[c] = done.weighted[c] / done.sum[c];
    if (!pool->overlaps) {
        compressor_clear(done, count);
        return;
    }
    memcpy(piece, piece + (size_t)3 * PIECE, (size_t)3 * PIECE * sizeof *piece);
    compressor_clear(next, count);
}

/* An item is a run and a piece of its channels. */
static void pool_pieces(void *context, uint32_t first_item, uint32_t items, uint32_t member) {
    const struct pooling *pool = context;
    const struct pass *pass = pool->pass;
    const struct sequence_state *state = &pass->model->state;
    float piece[6 * PIECE];
    for (uint32_t item = first_item; item < first_item + items; item++) {
        const struct run *run = &pass->batch->runs[item / pool->pieces];
        const uint32_t first = item % pool->pieces * PIECE;
        const uint32_t count = min_u32(pool->width - first, PIECE);
        if (run->first_position == 0) {
            compressor_clear(sums_at(piece, 0), PIECE);
            compressor_clear(sums_at(piece, 1), PIECE);
        } else {
            copy_sums(pool,
                      sequence_state_sums(state, run->slot, pass->layer, pool->which,
                                          run->first_position),
                      piece, first, count, false);
        }
        for (uint32_t i = 0; i < run->token_count; i++) {
            const uint32_t position = run->first_position + i;
            add_token(pool, run->first + i, position, first, count, piece);
            if (run->token_count - i <= STATE_SUMS)
                copy_sums(
                    pool,
                    sequence_state_sums(state, run->slot, pass->layer, pool->which, position + 1),
                    piece, first, count, true);
        }
    }
}

void compressor_run(const struct pass *pass, enum compressor_kind which) {
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    const struct scratch *s = pass->scratch;
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    const bool keys = which == COMPRESS_INDEX_KEYS;
    struct pooling pool = {
        .pass = pass,
        .weights = keys ? &attention->index_pool : &attention->pool,
        .which = which,
        .value = keys ? s->index_pool_value : s->pool_value,
        .gate = keys ? s->index_pool_gate : s->pool_gate,
        .stride = keys ? s->index_pool_stride : s->pool_stride,
        .width = keys ? shape->index_dim : shape_kv_width(shape),
        .ratio = shape->layer_kinds[pass->layer].ratio,
    };
    if (pool.ratio == 1) return; /* e is the value */
    pool.overlaps = shape->overlaps && pool.ratio == 4;
    pool.pieces = (uint32_t)divide_up(pool.width, PIECE);
    team_run(model->team, pool_pieces, &pool, pass->batch->run_count * pool.pieces, 1);
}
