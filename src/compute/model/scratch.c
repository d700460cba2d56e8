/* SPDX-License-Identifier: Apache-2.0
 * The scratch is one mapping, divided once at model_open: a first walk counts bytes, a second
 * assigns addresses. Its pages are in memory before the first step, which would otherwise be slowed
 * by thousands of page faults.
 */
#include "compute/model/scratch.h"

#include "compute/model/attention_core.h"

#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define SCRATCH_ALIGN 64
#define ABSORB_TILE_TOKENS 256      /* generated tokens per pass through kv_b */
#define EXPERT_BATCH_EXTRA_ROWS 256 /* (token, expert) pairs of a wave besides one expert's */
#define STRIDE_SHIFT 16 /* floats; keeps a tile's rows from all being a multiple of 4 KiB apart */

struct scratch_allocator {
    char *base; /* NULL: counting */
    size_t used;
    size_t most; /* largest use so far, as shared memory is assigned several times */
};

static void *scratch_cut(struct scratch_allocator *scratch_allocator, size_t bytes) {
    size_t at = round_up(scratch_allocator->used, SCRATCH_ALIGN);
    scratch_allocator->used = at + bytes;
    if (scratch_allocator->used > scratch_allocator->most)
        scratch_allocator->most = scratch_allocator->used;
    return scratch_allocator->base ? scratch_allocator->base + at : NULL;
}

static float *cut_floats(struct scratch_allocator *scratch_allocator, size_t rows, size_t columns) {
    return scratch_cut(scratch_allocator, rows * columns * sizeof(float));
}

static uint16_t *cut_values(struct scratch_allocator *scratch_allocator, size_t rows,
                            size_t columns) {
    return scratch_cut(scratch_allocator, rows * columns * sizeof(uint16_t));
}

static uint32_t scratch_padded(uint32_t rows) {
    return (uint32_t)round_up(rows, MATMUL_PANEL);
}

static uint32_t scratch_larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* A block of channels has one row more than needed. With a power of two, all blocks of a row would
 * share a few sets of the L1 cache. */
static struct input_buffer cut_input(struct scratch_allocator *scratch_allocator,
                                     const struct model *model, size_t rows, uint32_t columns) {
    enum activations mode = model->activations;
    bool floats = !model->rounds_bf16, values = mode != ACTIVATIONS_F32;
    bool int8 = mode == ACTIVATIONS_INT8;
    bool scales = int8 || mode == ACTIVATIONS_FP8 || mode == ACTIVATIONS_FP8_F32;
    columns = (uint32_t)round_up(columns, 16);
    struct input_buffer buffer = {.columns = columns,
                                  .block_stride = (rows + 1) * QUANT_GROUP,
                                  .scale_group = int8 ? INT8_GROUP : QUANT_GROUP};
    if (floats) buffer.x = cut_floats(scratch_allocator, rows, columns);
    if (scales)
        buffer.scales = cut_floats(scratch_allocator, rows, divide_up(columns, buffer.scale_group));
    if (values)
        buffer.blocks =
            cut_values(scratch_allocator, divide_up(columns, QUANT_GROUP), buffer.block_stride);
    return buffer;
}

static void scratch_set_strides(struct scratch *s, const struct shape *shape) {
    uint32_t head_rows = shape->nope_dim + shape->value_dim;
    s->q_a_stride = scratch_padded(shape->q_rank);
    s->kv_a_stride = scratch_padded(shape_kv_width(shape));
    s->hidden_stride = scratch_padded(shape->hidden);
    s->mlp_stride = scratch_padded(shape->dense_width);
    s->absorb_q_stride = scratch_padded(shape->kv_rank) + (uint32_t)round_up(shape->rope_dim, 16);
    s->absorb_u_stride = (uint32_t)round_up(shape->kv_rank, 16) + STRIDE_SHIFT;
    s->value_stride = scratch_padded(shape->value_dim);
    s->experts_stride = scratch_padded(shape->experts);
    s->expert_stride = scratch_padded(shape->expert_width);
    s->vocab_stride = scratch_padded(shape->vocab);
    s->index_q_stride = scratch_padded(shape->index_heads * shape->index_dim);
    s->index_k_stride = scratch_padded(shape->index_dim);
    s->index_w_stride = scratch_padded(shape->index_heads);
    s->index_scores_stride = round_up(shape_positions_max(shape), KV_BLOCK_TOKENS);
    s->stream_mixes_stride = scratch_padded(shape->streams * (2 + shape->streams));
    s->pool_stride = scratch_padded(2 * shape_kv_width(shape));
    s->index_pool_stride = scratch_padded(2 * shape->index_dim);
    s->output_u_stride = scratch_padded(shape->output_rank);
    s->engram_out_stride = scratch_padded((shape->streams + 1) * shape->hidden);
    s->group_heads = 1;
    while (s->group_heads * head_rows % QUANT_GROUP && s->group_heads < shape->heads)
        s->group_heads++;
    s->expanded_stride = scratch_padded(s->group_heads * head_rows);
}

static uint32_t shared_width(const struct shape *shape) {
    return shape->shared_experts * shape->expert_width;
}

/* Memory of a step that V4 needs in addition. */
static void cut_compressed_step(struct scratch_allocator *scratch_allocator, struct scratch *s,
                                const struct model *model) {
    const struct shape *shape = model->shape;
    const size_t tokens = model->scratch_tokens;
    s->stream_mixes = cut_floats(scratch_allocator, tokens, s->stream_mixes_stride);
    s->compressed_angles = cut_floats(scratch_allocator, tokens, shape->rope_dim);
    s->ones = cut_floats(scratch_allocator, 1, shape_kv_width(shape));
    s->chosen_count = scratch_cut(scratch_allocator, tokens * sizeof *s->chosen_count);
    if (shape->engram_layers)
        s->engram_ids =
            scratch_cut(scratch_allocator, tokens * shape->engram_ngram * sizeof *s->engram_ids);
    if (shape->candidate_layer == LAYER_NONE) return;
    s->candidate_count = scratch_cut(scratch_allocator, tokens * sizeof *s->candidate_count);
    s->candidates =
        scratch_cut(scratch_allocator, tokens * shape->candidate_blocks * sizeof *s->candidates);
}

static void cut_step(struct scratch_allocator *scratch_allocator, struct scratch *s,
                     const struct model *model) {
    const struct shape *shape = model->shape;
    uint32_t tokens = model->scratch_tokens, hidden = shape->hidden;
    uint32_t per_token = shape->experts_per_token, threads = team_threads(model->team);
    uint32_t widest =
        scratch_larger(scratch_larger(hidden, shape->q_rank),
                       scratch_larger(shape->heads * shape->value_dim, s->mlp_stride));
    widest = scratch_larger(widest, shape->output_groups * shape->output_rank);
    widest = scratch_larger(widest, shape_engram_rows(shape) * shape->engram_dim);
    if (model->weights.mtp) widest = scratch_larger(widest, 2 * hidden);
    s->x = cut_floats(scratch_allocator, tokens, (size_t)hidden * shape->streams);
    if (shape_is_compressed(shape)) cut_compressed_step(scratch_allocator, s, model);
    s->angles = cut_floats(scratch_allocator, tokens, shape->rope_dim);
    s->input = cut_input(scratch_allocator, model, tokens + LOGITS_TILE, widest);
    s->y = cut_floats(scratch_allocator, tokens, s->hidden_stride);
    s->logits = cut_floats(scratch_allocator, LOGITS_TILE, s->vocab_stride);
    if (shape->experts) {
        s->experts =
            scratch_cut(scratch_allocator, (size_t)tokens * per_token * sizeof *s->experts);
        s->expert_weights = cut_floats(scratch_allocator, tokens, per_token);
    }
    if (model->placement.ranks) {
        s->outgoing = scratch_cut(scratch_allocator,
                                  tokens * exchange_rows_bytes(model->dispatch_form, hidden));
        s->returning = cut_floats(scratch_allocator, threads, s->hidden_stride);
        if (model->group_experts)
            s->group_room = cut_floats(scratch_allocator, threads, s->hidden_stride);
    }
    if (!model->weights.mtp) return;
    const size_t channels = (size_t)hidden * shape->streams;
    s->mtp_u = cut_floats(scratch_allocator, tokens, (size_t)s->hidden_stride * shape->streams);
    s->hidden = cut_floats(scratch_allocator, tokens, channels);
    s->kept =
        cut_floats(scratch_allocator, (size_t)model->slots_max * (1 + LIMIT_DRAFTS), channels);
}

static float *columns_from(float *row, uint32_t first) {
    return row ? row + first : NULL;
}

/* q | attended, and in the same columns gate, up and y of the shared expert. */
static void cut_micro_batch(struct scratch_allocator *scratch_allocator, struct scratch *s,
                            const struct model *model) {
    const struct shape *shape = model->shape;
    uint32_t shared = scratch_padded(shared_width(shape)), hidden = scratch_padded(shape->hidden);
    uint32_t left =
        scratch_larger(scratch_padded(shape->heads * shape_query_dim(shape)), 2 * shared + hidden);
    uint32_t right = scratch_padded(shape->heads * shape->value_dim);
    if (shape_is_compressed(shape)) right = 0; /* results replace queries */
    s->micro_batch_stride = left + right + STRIDE_SHIFT;
    float *row = cut_floats(scratch_allocator, model->scratch_tokens, s->micro_batch_stride);
    s->q = row;
    s->attended = columns_from(row, left);
    if (shape_has_index(shape))
        s->chosen = scratch_cut(scratch_allocator, (size_t)model->scratch_tokens *
                                                       shape->index_top_k * sizeof *s->chosen);
    s->shared_gate = row;
    s->shared_up = columns_from(row, shared);
    s->shared_y = columns_from(row, 2 * shared);
    s->input_shared =
        cut_input(scratch_allocator, model, model->scratch_tokens, scratch_larger(hidden, shared));
}

static void cut_compressed_inputs(struct scratch_allocator *scratch_allocator, struct scratch *s,
                                  const struct model *model) {
    const size_t tokens = model->scratch_tokens;
    const struct shape *shape = model->shape;
    s->stream_products = cut_floats(scratch_allocator, tokens, s->stream_mixes_stride);
    s->pool_value = cut_floats(scratch_allocator, tokens, s->pool_stride);
    s->pool_gate = cut_floats(scratch_allocator, tokens, s->pool_stride);
    s->index_pool_value = cut_floats(scratch_allocator, tokens, s->index_pool_stride);
    s->index_pool_gate = cut_floats(scratch_allocator, tokens, s->index_pool_stride);
    if (shape->candidate_layer != LAYER_NONE)
        s->block_scores = cut_floats(scratch_allocator, INDEX_TILE, s->index_scores_stride);
}

/* The second half of V4's attention, and the sites' ends. */
static void cut_compressed_output(struct scratch_allocator *scratch_allocator, struct scratch *s,
                                  const struct model *model) {
    const struct shape *shape = model->shape;
    const size_t tokens = model->scratch_tokens;
    const uint32_t width = shape->heads / shape->output_groups * shape->value_dim;
    s->output_input = cut_input(scratch_allocator, model, tokens * shape->output_groups, width);
    s->output_u = cut_floats(scratch_allocator, tokens * shape->output_groups, s->output_u_stride);
    s->stream_room = cut_floats(scratch_allocator, team_threads(model->team),
                                (size_t)shape->streams * shape->hidden);
}

static void cut_inputs(struct scratch_allocator *scratch_allocator, struct scratch *s,
                       const struct model *model) {
    uint32_t tokens = model->scratch_tokens;
    s->normed = cut_floats(scratch_allocator, tokens, model->shape->hidden);
    s->q_a = cut_floats(scratch_allocator, tokens, s->q_a_stride);
    s->kv_a = cut_floats(scratch_allocator, tokens, s->kv_a_stride);
    s->router_logits = cut_floats(scratch_allocator, tokens, s->experts_stride);
    if (shape_is_compressed(model->shape)) cut_compressed_inputs(scratch_allocator, s, model);
    if (!shape_has_index(model->shape)) return;
    s->index_q = cut_floats(scratch_allocator, tokens, s->index_q_stride);
    s->index_k = cut_floats(scratch_allocator, tokens, s->index_k_stride);
    s->index_w = cut_floats(scratch_allocator, tokens, s->index_w_stride);
    s->index_scores = cut_floats(scratch_allocator, INDEX_TILE, s->index_scores_stride);
}

static void cut_core(struct scratch_allocator *scratch_allocator, struct scratch *s,
                     const struct model *model) {
    uint32_t tokens = model->scratch_tokens, heads = model->shape->heads;
    s->softmax_max = cut_floats(scratch_allocator, tokens, heads);
    s->softmax_sum = cut_floats(scratch_allocator, tokens, heads);
    s->absorb_tile = tokens < ABSORB_TILE_TOKENS ? tokens : ABSORB_TILE_TOKENS;
    size_t tile_heads = (size_t)s->absorb_tile * heads;
    s->absorb_q = cut_floats(scratch_allocator, tile_heads, s->absorb_q_stride);
    s->absorb_u = cut_floats(scratch_allocator, tile_heads, s->absorb_u_stride);
    s->absorb_o = cut_floats(scratch_allocator, tile_heads, s->value_stride);
}

static void cut_expert_batch(struct scratch_allocator *scratch_allocator, struct scratch *s,
                             const struct model *model) {
    const struct shape *shape = model->shape;
    uint32_t tokens = model->scratch_tokens;
    uint64_t rows = (uint64_t)tokens * shape->experts_per_token *
                    (model->placement.ranks ? model->placement.ranks : 1);
    s->expert_batch_rows =
        (uint32_t)(rows < tokens + EXPERT_BATCH_EXTRA_ROWS ? rows
                                                           : tokens + EXPERT_BATCH_EXTRA_ROWS);
    s->returned_count = scratch_cut(scratch_allocator, tokens * sizeof *s->returned_count);
    s->expert_input = cut_input(scratch_allocator, model, s->expert_batch_rows, shape->hidden);
    s->expert_intermediate =
        cut_input(scratch_allocator, model, s->expert_batch_rows, shape->expert_width);
    s->expert_gate = cut_floats(scratch_allocator, s->expert_batch_rows, s->expert_stride);
    s->expert_up = cut_floats(scratch_allocator, s->expert_batch_rows, s->expert_stride);
    s->expert_y = cut_floats(scratch_allocator, s->expert_batch_rows, s->hidden_stride);
    if (model->group_experts && !model->placement.ranks)
        s->group_y = cut_floats(scratch_allocator, tokens, s->hidden_stride);
}

static void cut_stage(struct scratch_allocator *scratch_allocator, struct scratch *s,
                      const struct model *model) {
    uint32_t tokens = model->scratch_tokens;
    s->stage = scratch_cut(scratch_allocator, 0);
    size_t start = scratch_allocator->used;
    cut_inputs(scratch_allocator, s, model);
    scratch_allocator->used = start;
    if (model->shape->engram_layers) {
        s->engram_out = cut_floats(scratch_allocator, tokens, s->engram_out_stride);
        s->engram_room =
            cut_floats(scratch_allocator, team_threads(model->team),
                       (size_t)shape_engram_rows(model->shape) * model->shape->engram_dim);
    }
    scratch_allocator->used = start;
    s->gate = cut_floats(scratch_allocator, tokens, s->mlp_stride);
    s->up = cut_floats(scratch_allocator, tokens, s->mlp_stride);
    scratch_allocator->used = start;
    if (shape_is_compressed(model->shape))
        cut_compressed_output(scratch_allocator, s, model);
    else
        cut_core(scratch_allocator, s, model);
    scratch_allocator->used = start;
    if (model->shape->experts) cut_expert_batch(scratch_allocator, s, model);
    scratch_allocator->used = start;
    if (model->weights.mtp)
        s->mtp_pair = cut_floats(scratch_allocator, tokens, 2 * model->shape->hidden);
    scratch_allocator->used = scratch_allocator->most;
    s->stage_bytes = scratch_allocator->used - start;
}

/* Assigns memory for attention with BF16 values. */
static void cut_bf16_room(struct scratch_allocator *scratch_allocator, const struct scratch *s,
                          const struct model *model, uint32_t chunk,
                          struct attention_scratch *room) {
    const struct shape *shape = model->shape;
    uint32_t group_rows = s->group_heads * (shape->nope_dim + shape->value_dim);
    uint32_t heads = (uint32_t)round_up(shape->heads, 16);
    room->kv_b = cut_values(scratch_allocator, round_up(group_rows, MATMUL_PANEL), shape->kv_rank);
    room->nope_keys = cut_values(scratch_allocator, chunk, shape->nope_dim);
    room->values = cut_values(scratch_allocator, chunk, shape->value_dim);
    room->weights =
        cut_values(scratch_allocator, scratch_larger(ATTENTION_TILE, heads), room->weights_stride);
    room->query = cut_values(scratch_allocator, CORE_HEADS, shape_kv_width(shape));
}

static void cut_index_room(struct scratch_allocator *scratch_allocator, const struct model *model,
                           uint32_t chunk, struct attention_scratch *room) {
    const struct shape *shape = model->shape;
    room->index_rows = cut_floats(scratch_allocator, KV_BLOCK_TOKENS, shape->index_dim);
    room->index_keys = cut_floats(scratch_allocator, shape->index_dim, KV_BLOCK_TOKENS);
    room->index_products = cut_floats(scratch_allocator, shape->index_heads, KV_BLOCK_TOKENS);
    if (model->bf16_attention)
        room->gathered = cut_values(scratch_allocator, chunk, shape_kv_width(shape));
}

/* A strip of V4's heads, or a strip of tokens in its index. */
static struct attention_scratch cut_compressed_room(struct scratch_allocator *scratch_allocator,
                                                    const struct model *model) {
    const struct shape *shape = model->shape;
    const uint32_t width = shape_kv_width(shape);
    struct attention_scratch room = {
        .scores_stride = CHUNK_ROWS + STRIDE_SHIFT,
        .rows = cut_floats(scratch_allocator, CHUNK_ROWS, width),
        .keys = cut_floats(scratch_allocator, CHUNK_ROWS, CORE_HEADS),
        .queries = cut_floats(scratch_allocator, width, CORE_HEADS),
        .scores = cut_floats(scratch_allocator, CORE_HEADS, CHUNK_ROWS + STRIDE_SHIFT),
        .head_results = cut_floats(scratch_allocator, CORE_HEADS, width),
        .joined = cut_floats(scratch_allocator, shape->output_groups, shape->output_rank),
    };
    if (shape_has_index(shape)) cut_index_room(scratch_allocator, model, 0, &room);
    return room;
}

static void cut_threads(struct scratch_allocator *scratch_allocator, struct scratch *s,
                        const struct model *model) {
    const struct shape *shape = model->shape;
    const uint32_t threads = team_threads(model->team);
    const uint32_t heads = (uint32_t)round_up(shape->heads, 16), query_dim = shape_query_dim(shape);
    const uint32_t chunk = attention_core_blocks(model) * KV_BLOCK_TOKENS;
    const size_t rows = (size_t)s->group_heads * model->scratch_tokens;
    s->attention = scratch_cut(scratch_allocator, threads * sizeof *s->attention);
    for (uint32_t i = 0; shape_is_compressed(shape) && i < threads; i++) {
        struct attention_scratch room = cut_compressed_room(scratch_allocator, model);
        if (s->attention) s->attention[i] = room;
    }
    for (uint32_t i = 0; !shape_is_compressed(shape) && i < threads; i++) {
        struct attention_scratch room = {
            .keys_stride = chunk,
            .scores_stride = chunk + STRIDE_SHIFT,
            .weights_stride = chunk + 2 * STRIDE_SHIFT,
            .rows = cut_floats(scratch_allocator, KV_BLOCK_TOKENS, shape_kv_width(shape)),
            .prepared = cut_input(scratch_allocator, model, chunk, shape->kv_rank),
            .expanded = cut_floats(scratch_allocator, chunk, s->expanded_stride),
            .keys = cut_floats(scratch_allocator, scratch_larger(query_dim, 2 * CORE_HEADS), chunk),
            .queries = cut_floats(scratch_allocator, shape_kv_width(shape), heads),
            .scores = cut_floats(scratch_allocator, scratch_larger(ATTENTION_TILE, 2 * heads),
                                 chunk + STRIDE_SHIFT),
            .head_results = cut_floats(scratch_allocator, rows, shape->value_dim),
        };
        room.head_queries = (char *)(model->bf16_attention
                                         ? (void *)cut_values(scratch_allocator, rows, query_dim)
                                         : (void *)cut_floats(scratch_allocator, rows, query_dim));
        if (model->bf16_attention) cut_bf16_room(scratch_allocator, s, model, chunk, &room);
        if (shape_has_index(shape)) cut_index_room(scratch_allocator, model, chunk, &room);
        if (s->attention) s->attention[i] = room;
    }
}

static void scratch_advance(float **rows, size_t token, size_t stride) {
    if (*rows) *rows += token * stride;
}

static void advance_input(struct input_buffer *input, size_t token) {
    scratch_advance(&input->x, token, input->columns);
    scratch_advance(&input->scales, token, divide_up(input->columns, QUANT_GROUP));
    if (input->blocks) input->blocks += token * QUANT_GROUP;
}

struct scratch scratch_from(const struct scratch *scratch, const struct model *model,
                            uint32_t token) {
    const struct shape *shape = model->shape;
    struct scratch s = *scratch;
    scratch_advance(&s.x, token, (size_t)shape->hidden * shape->streams);
    scratch_advance(&s.stream_mixes, token, s.stream_mixes_stride);
    scratch_advance(&s.compressed_angles, token, shape->rope_dim);
    if (s.chosen_count) s.chosen_count += token;
    if (s.engram_ids) s.engram_ids += (size_t)token * shape->engram_ngram;
    if (s.candidates) {
        s.candidates += (size_t)token * shape->candidate_blocks;
        s.candidate_count += token;
    }
    scratch_advance(&s.angles, token, shape->rope_dim);
    advance_input(&s.input, token);
    scratch_advance(&s.y, token, s.hidden_stride);
    scratch_advance(&s.q, token, s.micro_batch_stride);
    scratch_advance(&s.attended, token, s.micro_batch_stride);
    if (s.chosen) s.chosen += (size_t)token * shape->index_top_k;
    scratch_advance(&s.shared_gate, token, s.micro_batch_stride);
    scratch_advance(&s.shared_up, token, s.micro_batch_stride);
    scratch_advance(&s.shared_y, token, s.micro_batch_stride);
    advance_input(&s.input_shared, token);
    scratch_advance(&s.expert_weights, token, shape->experts_per_token);
    if (s.experts) s.experts += (size_t)token * shape->experts_per_token;
    if (s.outgoing) s.outgoing += token * exchange_rows_bytes(model->dispatch_form, shape->hidden);
    return s;
}

static void scratch_cut_all(struct scratch_allocator *scratch_allocator, struct scratch *s,
                            const struct model *model) {
    cut_step(scratch_allocator, s, model);
    cut_micro_batch(scratch_allocator, s, model);
    cut_stage(scratch_allocator, s, model);
    s->jobs = scratch_cut(scratch_allocator, LINEAR_JOBS_MAX * sizeof *s->jobs);
    cut_threads(scratch_allocator, s, model);
}

static size_t scratch_count(struct scratch *scratch, const struct model *model) {
    struct scratch_allocator scratch_allocator = {0};
    *scratch = (struct scratch){0};
    scratch_set_strides(scratch, model->shape);
    scratch_cut_all(&scratch_allocator, scratch, model);
    return round_up(scratch_allocator.most, 4096);
}

size_t scratch_bytes(const struct model *model) {
    struct scratch counted;
    return scratch_count(&counted, model);
}

enum status scratch_open(struct scratch *scratch, const struct model *model, struct error *error) {
    struct scratch_allocator scratch_allocator;
    scratch->bytes = scratch_count(scratch, model);
    void *memory = mmap(NULL, scratch->bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(error, STATUS_NO_MEMORY,
                         "cannot map %zu bytes of scratch for %u tokens a step; lower that number",
                         scratch->bytes, model->step_tokens_max);
    (void)madvise(memory, scratch->bytes, MADV_POPULATE_WRITE); /* fails before Linux 5.14 */
    scratch->memory = memory;
    scratch_allocator = (struct scratch_allocator){.base = memory};
    scratch_cut_all(&scratch_allocator, scratch, model);
    for (uint32_t i = 0; scratch->ones && i < shape_kv_width(model->shape); i++)
        scratch->ones[i] = 1;
    return STATUS_OK;
}

void scratch_close(struct scratch *scratch) {
    if (scratch->memory) munmap(scratch->memory, scratch->bytes);
    *scratch = (struct scratch){0};
}
