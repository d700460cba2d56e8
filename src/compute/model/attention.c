/* SPDX-License-Identifier: Apache-2.0
 * Multi-head latent attention on the CPU, except the two forms of core attention.
 *
 *   q      = q_b(rmsnorm(q_a x)), or q_proj x without q_a; the last rope_dim channels of each head
 *            are rotated
 *   c | kr = kv_a x;  KV row = rmsnorm(c) | rope(kr)
 *   y      = o_proj(core(q, KV rows)); x is the layer's input after its norm
 *
 * The batch's KV rows of a layer are written before its core attention starts. A prompt token thus
 * reads the rows of its own chunk from the pages, like all others.
 */
#include "compute/model/attention.h"

#include "compute/model/attention_compressed.h"
#include "compute/model/attention_core.h"
#include "compute/model/attention_generated.h"
#include "compute/model/attention_index.h"
#include "compute/model/attention_prompt.h"
#include "compute/model/token_loop.h"

#include <string.h>

static const struct packed_matrix *query_down(const struct pass *pass) {
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    return pass->model->shape->q_rank ? &attention->q_a : &attention->q;
}

static void project_down(const struct pass *pass) {
    struct model *model = pass->model;
    struct scratch *s = pass->scratch;
    enum input_kind q_kind = compute_kind(pass->model, query_down(pass));
    enum input_kind kv_kind = compute_kind(pass->model, &compute_weights(pass)->attention.kv_a);
    struct linear_input q_input = linear_prepared(q_kind, &s->input, 0);
    struct linear_input kv_input =
        linear_prepared(kv_kind, kv_kind == q_kind ? &s->input : &s->input_shared, 0);
    uint32_t tokens = pass->batch->token_count;
    bool low_rank = model->shape->q_rank != 0;
    struct matmul jobs[] = {
        linear_job(query_down(pass), &q_input, low_rank ? s->q_a : s->q,
                   low_rank ? s->q_a_stride : s->micro_batch_stride, tokens),
        linear_job(&compute_weights(pass)->attention.kv_a, &kv_input, s->kv_a, s->kv_a_stride,
                   tokens),
    };
    linear_run(model->kernels, model->team, jobs, 2);
}

/* Normalizes a token's latent, rotates its key, and writes them as its KV row. */
static void attention_write_row(const struct pass *pass, uint32_t token) {
    struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    const struct shape *shape = model->shape;
    void *row = attention_core_own_row(pass, token, KV_GROUP_MLA);
    float *kv = s->kv_a + (size_t)token * s->kv_a_stride;
    model->kernels->rmsnorm(kv, kv, compute_weights(pass)->attention.kv_a_norm, shape->kv_rank,
                            LATENT_EPSILON);
    model->kernels->rotate(kv + shape->kv_rank, s->angles + (size_t)token * shape->rope_dim,
                           shape->rope_dim / 2, shape->rope_interleaved);
    kv_pages_write(&model->kv, model->kernels, KV_GROUP_MLA, row, kv);
}

/* Writes KV rows, and normalizes the queries' latents for q_b. */
static void finish_down(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    struct model *model = pass->model;
    struct scratch *s = pass->scratch;
    const struct shape *shape = model->shape;
    const struct kernels *kernels = model->kernels;
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    for (uint32_t token = first; token < first + count; token++) {
        attention_write_row(pass, token);
        if (!shape->q_rank) continue;
        float *q_a = s->q_a + (size_t)token * s->q_a_stride;
        kernels->rmsnorm(q_a, q_a, attention->q_a_norm, shape->q_rank, LATENT_EPSILON);
        linear_prepare(kernels, compute_kind(model, &attention->q_b), q_a, shape->q_rank, &s->input,
                       token);
    }
}

static void finish_queries(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    uint32_t query_dim = shape_query_dim(shape);
    for (uint32_t token = first; token < first + count; token++) {
        float *q = pass->scratch->q + (size_t)token * pass->scratch->micro_batch_stride;
        const float *angles = pass->scratch->angles + (size_t)token * shape->rope_dim;
        for (uint32_t head = 0; head < shape->heads; head++)
            model->kernels->rotate(q + head * query_dim + shape->nope_dim, angles,
                                   shape->rope_dim / 2, shape->rope_interleaved);
        if (model->rounds_bf16) model->kernels->round_bf16(q, q, shape->heads * query_dim);
    }
}

static void prepare_output(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    struct scratch *s = pass->scratch;
    uint32_t width = pass->model->shape->heads * pass->model->shape->value_dim;
    enum input_kind kind = compute_kind(pass->model, &compute_weights(pass)->attention.o);
    for (uint32_t token = first; token < first + count; token++)
        linear_prepare(pass->model->kernels, kind,
                       s->attended + (size_t)token * s->micro_batch_stride, width, &s->input,
                       token);
}

static void attention_write_rows_each(void *context, uint32_t first, uint32_t count,
                                      uint32_t member) {
    for (uint32_t token = first; token < first + count; token++)
        attention_write_row(context, token);
}

void attention_write_rows(const struct pass *pass) {
    if (shape_is_compressed(pass->model->shape)) {
        attention_compressed_write_rows(pass);
        return;
    }
    const struct model *model = pass->model;
    struct scratch *s = pass->scratch;
    const struct packed_matrix *kv_a = &compute_weights(pass)->attention.kv_a;
    uint32_t tokens = pass->batch->token_count;
    token_loop_normalize(pass, compute_weights(pass)->attention.norm,
                         compute_kind(pass->model, kv_a), NULL);
    token_loop_linear(model, kv_a, &s->input, s->kv_a, s->kv_a_stride, tokens);
    token_loop_run(model, attention_write_rows_each, (void *)(uintptr_t)pass, tokens);
    attention_index_write_rows(pass);
}

/* The first generated token for which attention_finish runs the core attention. */
static uint32_t first_late(const struct pass *pass) {
    return pass->batch->prompt_tokens + pass->early;
}

void attention_begin(const struct pass *pass) {
    if (shape_is_compressed(pass->model->shape)) {
        attention_compressed_begin(pass);
        return;
    }
    struct model *model = pass->model;
    struct scratch *s = pass->scratch;
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    uint32_t tokens = pass->batch->token_count;
    enum input_kind q_kind = compute_kind(pass->model, query_down(pass)),
                    kv_kind = compute_kind(pass->model, &attention->kv_a);
    token_loop_normalize(pass, attention->norm, q_kind, kv_kind == q_kind ? NULL : &kv_kind);
    pass_part(pass, PART_ATTENTION_NORM);
    project_down(pass);
    pass_part(pass, PART_DOWN);
    token_loop_run(model, finish_down, (void *)(uintptr_t)pass, tokens);
    pass_part(pass, PART_LATENT);
    if (model->shape->q_rank) {
        token_loop_linear(model, &attention->q_b, &s->input, s->q, s->micro_batch_stride, tokens);
        pass_part(pass, PART_QUERY);
    }
    token_loop_run(model, finish_queries, (void *)(uintptr_t)pass, tokens);
    pass_part(pass, PART_ROPE);
    attention_index_write_rows(pass);
    if (shape_has_index(model->shape)) pass_part(pass, PART_INDEX_KEYS);
    attention_index_choose(pass);
    attention_generated_run(pass, pass->batch->prompt_tokens, first_late(pass));
}

/* Prompt tokens that attend to chosen rows take the absorbed form: each has rows of its own, which
 * the expanded form would expand for that token alone. */
static void run_sparse_prompts(const struct pass *pass) {
    for (uint32_t i = 0; i < pass->batch->prompt_runs; i++) {
        const struct run *run = &pass->batch->runs[i];
        uint32_t dense = attention_index_dense(pass, run);
        attention_generated_run(pass, run->first + dense, run->first + run->token_count);
    }
}

void attention_finish(const struct pass *pass) {
    if (shape_is_compressed(pass->model->shape)) {
        attention_compressed_finish(pass);
        return;
    }
    struct model *model = pass->model;
    struct scratch *s = pass->scratch;
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    uint32_t tokens = pass->batch->token_count;
    attention_prompt_run(pass);
    run_sparse_prompts(pass);
    attention_generated_run(pass, first_late(pass), tokens);
    token_loop_run(model, prepare_output, (void *)(uintptr_t)pass, tokens);
    pass_part(pass, PART_OUTPUT_INPUT);
    token_loop_linear(model, &attention->o, &s->input, s->y, s->hidden_stride, tokens);
    pass_part(pass, PART_OUTPUT);
}
