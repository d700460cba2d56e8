/* SPDX-License-Identifier: Apache-2.0
 * The scratch is one mapping, cut once at model_open: a first walk counts, a second hands out
 * addresses. Pages are touched when a step first needs them.
 */
#include "compute/model/scratch.h"

#include "compute/model/attention_core.h"

#include <sys/mman.h>

#define SCRATCH_ALIGN 64
#define ABSORB_TILE_TOKENS 256 /* generated tokens that share one pass through kv_b */
#define WAVE_EXTRA_ROWS 256    /* (token, expert) pairs of a wave beyond one expert's */
#define STRIDE_SHIFT 16 /* floats: a tile's rows should not all be a multiple of 4 KiB apart */

struct cutter {
    char *base; /* NULL: counting */
    size_t used;
    size_t most; /* that was used at any time: what lies in the same place is cut anew */
};

static void *cut(struct cutter *cutter, size_t bytes) {
    size_t at = round_up(cutter->used, SCRATCH_ALIGN);
    cutter->used = at + bytes;
    if (cutter->used > cutter->most) cutter->most = cutter->used;
    return cutter->base ? cutter->base + at : NULL;
}

static float *cut_floats(struct cutter *cutter, size_t rows, size_t columns) {
    return cut(cutter, rows * columns * sizeof(float));
}

static uint16_t *cut_values(struct cutter *cutter, size_t rows, size_t columns) {
    return cut(cutter, rows * columns * sizeof(uint16_t));
}

static uint32_t padded(uint32_t rows) {
    return (uint32_t)round_up(rows, MATMUL_PANEL);
}

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* A block of channels has a row more than are used: with a power of two, all blocks of a row would share
 * a few sets of the nearest cache. */
static struct input_buffer cut_input(struct cutter *cutter, const struct model *model, size_t rows,
                                     uint32_t columns) {
    enum activations mode = model->activations;
    bool floats = !model->rounds_bf16, values = mode != ACTIVATIONS_F32;
    bool scales = mode == ACTIVATIONS_FP8 || mode == ACTIVATIONS_FP8_F32;
    columns = (uint32_t)round_up(columns, 16);
    struct input_buffer buffer = {.columns = columns, .block_stride = (rows + 1) * QUANT_GROUP};
    if (floats) buffer.x = cut_floats(cutter, rows, columns);
    if (scales) buffer.scales = cut_floats(cutter, rows, divide_up(columns, QUANT_GROUP));
    if (values)
        buffer.blocks = cut_values(cutter, divide_up(columns, QUANT_GROUP), buffer.block_stride);
    return buffer;
}

static void set_strides(struct scratch *s, const struct shape *shape) {
    uint32_t head_rows = shape->nope_dim + shape->value_dim;
    s->q_a_stride = padded(shape->q_rank);
    s->kv_a_stride = padded(shape_kv_width(shape));
    s->hidden_stride = padded(shape->hidden);
    s->mlp_stride = padded(shape->dense_width);
    s->absorb_q_stride = padded(shape->kv_rank) + (uint32_t)round_up(shape->rope_dim, 16);
    s->absorb_u_stride = (uint32_t)round_up(shape->kv_rank, 16) + STRIDE_SHIFT;
    s->value_stride = padded(shape->value_dim);
    s->experts_stride = padded(shape->experts);
    s->expert_stride = padded(shape->expert_width);
    s->vocab_stride = padded(shape->vocab);
    s->group_heads = 1;
    while (s->group_heads * head_rows % QUANT_GROUP && s->group_heads < shape->heads)
        s->group_heads++;
    s->expanded_stride = padded(s->group_heads * head_rows);
}

static uint32_t shared_width(const struct shape *shape) {
    return shape->shared_experts * shape->expert_width;
}

static void cut_step(struct cutter *cutter, struct scratch *s, const struct model *model) {
    const struct shape *shape = model->shape;
    uint32_t tokens = model->scratch_tokens, hidden = shape->hidden;
    uint32_t per_token = shape->experts_per_token, threads = team_threads(model->team);
    uint32_t widest = larger(larger(hidden, shape->q_rank),
                             larger(shape->heads * shape->value_dim, s->mlp_stride));
    if (model->weights.mtp) widest = larger(widest, 2 * hidden);
    s->x = cut_floats(cutter, tokens, hidden);
    s->angles = cut_floats(cutter, tokens, shape->rope_dim);
    s->input = cut_input(cutter, model, tokens + LOGITS_TILE, widest);
    s->y = cut_floats(cutter, tokens, s->hidden_stride);
    s->logits = cut_floats(cutter, LOGITS_TILE, s->vocab_stride);
    if (shape->experts) {
        s->experts = cut(cutter, (size_t)tokens * per_token * sizeof *s->experts);
        s->expert_weights = cut_floats(cutter, tokens, per_token);
    }
    if (model->placement.ranks) {
        s->outgoing = cut(cutter, tokens * exchange_rows_bytes(model->dispatch_form, hidden));
        s->returning = cut_floats(cutter, threads, s->hidden_stride);
        if (model->group_experts) s->group_room = cut_floats(cutter, threads, s->hidden_stride);
    }
    if (!model->weights.mtp) return;
    s->mtp_u = cut_floats(cutter, tokens, s->hidden_stride);
    s->hidden = cut_floats(cutter, tokens, hidden);
    s->kept = cut_floats(cutter, (size_t)model->slots_max * (1 + LIMIT_DRAFTS), hidden);
}

static float *columns_from(float *row, uint32_t first) {
    return row ? row + first : NULL;
}

/* q | attended, and in the same columns gate, up and y of the shared expert. */
static void cut_lane(struct cutter *cutter, struct scratch *s, const struct model *model) {
    const struct shape *shape = model->shape;
    uint32_t shared = padded(shared_width(shape)), hidden = padded(shape->hidden);
    uint32_t left = larger(padded(shape->heads * shape_query_dim(shape)), 2 * shared + hidden);
    uint32_t right = padded(shape->heads * shape->value_dim);
    s->lane_stride = left + right + STRIDE_SHIFT;
    float *row = cut_floats(cutter, model->scratch_tokens, s->lane_stride);
    s->q = row;
    s->attended = columns_from(row, left);
    s->shared_gate = row;
    s->shared_up = columns_from(row, shared);
    s->shared_y = columns_from(row, 2 * shared);
    s->input_shared = cut_input(cutter, model, model->scratch_tokens, larger(hidden, shared));
}

static void cut_inputs(struct cutter *cutter, struct scratch *s, const struct model *model) {
    uint32_t tokens = model->scratch_tokens;
    s->normed = cut_floats(cutter, tokens, model->shape->hidden);
    s->q_a = cut_floats(cutter, tokens, s->q_a_stride);
    s->kv_a = cut_floats(cutter, tokens, s->kv_a_stride);
    s->router_logits = cut_floats(cutter, tokens, s->experts_stride);
}

static void cut_core(struct cutter *cutter, struct scratch *s, const struct model *model) {
    uint32_t tokens = model->scratch_tokens, heads = model->shape->heads;
    s->softmax_max = cut_floats(cutter, tokens, heads);
    s->softmax_sum = cut_floats(cutter, tokens, heads);
    s->absorb_tile = tokens < ABSORB_TILE_TOKENS ? tokens : ABSORB_TILE_TOKENS;
    size_t tile_heads = (size_t)s->absorb_tile * heads;
    s->absorb_q = cut_floats(cutter, tile_heads, s->absorb_q_stride);
    s->absorb_u = cut_floats(cutter, tile_heads, s->absorb_u_stride);
    s->absorb_o = cut_floats(cutter, tile_heads, s->value_stride);
}

static void cut_wave(struct cutter *cutter, struct scratch *s, const struct model *model) {
    const struct shape *shape = model->shape;
    uint32_t tokens = model->scratch_tokens;
    uint64_t rows = (uint64_t)tokens * shape->experts_per_token *
                    (model->placement.ranks ? model->placement.ranks : 1);
    s->wave_rows = (uint32_t)(rows < tokens + WAVE_EXTRA_ROWS ? rows : tokens + WAVE_EXTRA_ROWS);
    s->returned_count = cut(cutter, tokens * sizeof *s->returned_count);
    s->expert_input = cut_input(cutter, model, s->wave_rows, shape->hidden);
    s->expert_middle = cut_input(cutter, model, s->wave_rows, shape->expert_width);
    s->expert_gate = cut_floats(cutter, s->wave_rows, s->expert_stride);
    s->expert_up = cut_floats(cutter, s->wave_rows, s->expert_stride);
    s->expert_y = cut_floats(cutter, s->wave_rows, s->hidden_stride);
    if (model->group_experts && !model->placement.ranks)
        s->group_y = cut_floats(cutter, tokens, s->hidden_stride);
}

static void cut_stage(struct cutter *cutter, struct scratch *s, const struct model *model) {
    uint32_t tokens = model->scratch_tokens;
    s->stage = cut(cutter, 0);
    size_t start = cutter->used;
    cut_inputs(cutter, s, model);
    cutter->used = start;
    s->gate = cut_floats(cutter, tokens, s->mlp_stride);
    s->up = cut_floats(cutter, tokens, s->mlp_stride);
    cutter->used = start;
    cut_core(cutter, s, model);
    cutter->used = start;
    if (model->shape->experts) cut_wave(cutter, s, model);
    cutter->used = start;
    if (model->weights.mtp) s->mtp_pair = cut_floats(cutter, tokens, 2 * model->shape->hidden);
    cutter->used = cutter->most;
    s->stage_bytes = cutter->used - start;
}

/* What only attention with BF16 values needs. */
static void cut_bf16_room(struct cutter *cutter, const struct scratch *s, const struct model *model,
                          uint32_t chunk, struct attention_scratch *room) {
    const struct shape *shape = model->shape;
    uint32_t group_rows = s->group_heads * (shape->nope_dim + shape->value_dim);
    uint32_t heads = (uint32_t)round_up(shape->heads, 16);
    room->kv_b = cut_values(cutter, round_up(group_rows, MATMUL_PANEL), shape->kv_rank);
    room->nope_keys = cut_values(cutter, chunk, shape->nope_dim);
    room->values = cut_values(cutter, chunk, shape->value_dim);
    room->weights = cut_values(cutter, larger(ATTENTION_TILE, heads), room->weights_stride);
    room->query = cut_values(cutter, CORE_HEADS, shape_kv_width(shape));
}

static void cut_threads(struct cutter *cutter, struct scratch *s, const struct model *model) {
    const struct shape *shape = model->shape;
    const uint32_t threads = team_threads(model->team);
    const uint32_t heads = (uint32_t)round_up(shape->heads, 16), query_dim = shape_query_dim(shape);
    const uint32_t chunk = attention_core_blocks(model) * KV_BLOCK_TOKENS;
    const size_t rows = (size_t)s->group_heads * model->scratch_tokens;
    s->attention = cut(cutter, threads * sizeof *s->attention);
    for (uint32_t i = 0; i < threads; i++) {
        struct attention_scratch room = {
            .keys_stride = chunk,
            .scores_stride = chunk + STRIDE_SHIFT,
            .weights_stride = chunk + 2 * STRIDE_SHIFT,
            .rows = cut_floats(cutter, KV_BLOCK_TOKENS, shape_kv_width(shape)),
            .prepared = cut_input(cutter, model, chunk, shape->kv_rank),
            .expanded = cut_floats(cutter, chunk, s->expanded_stride),
            .keys = cut_floats(cutter, larger(query_dim, 2 * CORE_HEADS), chunk),
            .queries = cut_floats(cutter, shape_kv_width(shape), heads),
            .scores = cut_floats(cutter, larger(ATTENTION_TILE, 2 * heads), chunk + STRIDE_SHIFT),
            .head_results = cut_floats(cutter, rows, shape->value_dim),
        };
        room.head_queries =
            (char *)(model->bf16_attention ? (void *)cut_values(cutter, rows, query_dim)
                                           : (void *)cut_floats(cutter, rows, query_dim));
        if (model->bf16_attention) cut_bf16_room(cutter, s, model, chunk, &room);
        if (s->attention) s->attention[i] = room;
    }
}

static void advance(float **rows, size_t token, size_t stride) {
    if (*rows) *rows += token * stride;
}

static void advance_input(struct input_buffer *input, size_t token) {
    advance(&input->x, token, input->columns);
    advance(&input->scales, token, divide_up(input->columns, QUANT_GROUP));
    if (input->blocks) input->blocks += token * QUANT_GROUP;
}

struct scratch scratch_from(const struct scratch *scratch, const struct model *model,
                            uint32_t token) {
    const struct shape *shape = model->shape;
    struct scratch s = *scratch;
    advance(&s.x, token, shape->hidden);
    advance(&s.angles, token, shape->rope_dim);
    advance_input(&s.input, token);
    advance(&s.y, token, s.hidden_stride);
    advance(&s.q, token, s.lane_stride);
    advance(&s.attended, token, s.lane_stride);
    advance(&s.shared_gate, token, s.lane_stride);
    advance(&s.shared_up, token, s.lane_stride);
    advance(&s.shared_y, token, s.lane_stride);
    advance_input(&s.input_shared, token);
    advance(&s.expert_weights, token, shape->experts_per_token);
    if (s.experts) s.experts += (size_t)token * shape->experts_per_token;
    if (s.outgoing) s.outgoing += token * exchange_rows_bytes(model->dispatch_form, shape->hidden);
    return s;
}

static void cut_all(struct cutter *cutter, struct scratch *s, const struct model *model) {
    cut_step(cutter, s, model);
    cut_lane(cutter, s, model);
    cut_stage(cutter, s, model);
    s->jobs = cut(cutter, LINEAR_JOBS_MAX * sizeof *s->jobs);
    cut_threads(cutter, s, model);
}

enum status scratch_open(struct scratch *scratch, const struct model *model, struct error *error) {
    struct cutter cutter = {0};
    *scratch = (struct scratch){0};
    set_strides(scratch, model->shape);
    cut_all(&cutter, scratch, model);
    scratch->bytes = round_up(cutter.most, 4096);
    void *memory = mmap(NULL, scratch->bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(error, STATUS_NO_MEMORY,
                         "cannot map %zu bytes of scratch for %u tokens a step; lower that number",
                         scratch->bytes, model->step_tokens_max);
    scratch->memory = memory;
    cutter = (struct cutter){.base = memory};
    cut_all(&cutter, scratch, model);
    return STATUS_OK;
}

void scratch_close(struct scratch *scratch) {
    if (scratch->memory) munmap(scratch->memory, scratch->bytes);
    *scratch = (struct scratch){0};
}
