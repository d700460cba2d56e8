/* SPDX-License-Identifier: Apache-2.0
 * The CPU's implementation of compute.h, with the functions outside the layers: embedding, outputs,
 * logits and MTP. attention.c, mlp.c and experts.c have those of a layer.
 */
#include "compute/model/compute.h"

#include "compute/model/attention.h"
#include "compute/model/attention_index.h"
#include "compute/model/compressed_index.h"
#include "compute/model/engram.h"
#include "compute/model/experts.h"
#include "compute/model/hyper_connections.h"
#include "compute/model/mlp.h"
#include "compute/model/mtp_streams.h"
#include "compute/model/rope.h"
#include "compute/model/token_loop.h"

#include <stdlib.h>
#include <string.h>

/* model.scratch[0] is the step's, scratch[1 + micro-batch] a micro-batch's view of it. */
static enum status open_scratch(struct model *model, struct error *error) {
    model->scratch = calloc(1 + OVERLAP_MICRO_BATCHES, sizeof *model->scratch);
    if (!model->scratch) return error_set(error, STATUS_NO_MEMORY, "no memory for the scratch");
    return scratch_open(model->scratch, model, error);
}

static void close_scratch(struct model *model) {
    if (model->scratch) scratch_close(model->scratch);
    free(model->scratch);
}

static struct scratch *compute_cpu_take_micro_batch(struct model *model, uint32_t micro_batch,
                                                    uint32_t first_token) {
    model->scratch[1 + micro_batch] = scratch_from(model->scratch, model, first_token);
    return &model->scratch[1 + micro_batch];
}

static void add_result(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    const struct scratch *s = pass->scratch;
    uint32_t hidden = pass->model->shape->hidden;
    for (uint32_t token = first; token < first + count; token++)
        pass->model->kernels->add_scaled(s->x + (size_t)token * hidden,
                                         s->y + (size_t)token * s->hidden_stride, 1, hidden);
}

static void add(const struct pass *pass) {
    if (pass->model->shape->streams > 1) {
        hyper_connections_add(pass);
        return;
    }
    token_loop_run(pass->model, add_result, (void *)(uintptr_t)pass, pass->batch->token_count);
}

static void compute_cpu_embed(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct model *model = context;
    const struct shape *shape = model->shape;
    uint32_t hidden = shape->hidden;
    for (uint32_t token = first; token < first + count; token++) {
        tensor_to_float(model->weights.embedding, (uint64_t)model->batch.token_ids[token] * hidden,
                        hidden, model->scratch->x + (size_t)token * hidden * shape->streams);
        if (shape->streams == 1) continue;
        hyper_connections_begin(model, token);
        rope_turn(shape->compressed_frequency, shape->rope_dim, model->batch.positions[token],
                  model->scratch->compressed_angles + (size_t)token * shape->rope_dim);
    }
}

static bool begin(struct model *model, uint32_t walk) {
    const struct batch *batch = &model->batch;
    rope_prepare(model->shape, batch->positions, batch->token_count, model->scratch->angles);
    token_loop_run(model, compute_cpu_embed, model, batch->token_count);
    engram_begin(model);
    return false;
}

static uint32_t compute_cpu_largest(const float *logits, uint32_t count) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Computes the logits of `rows` rows, at most LOGITS_TILE, in scratch.logits. */
static void compute_cpu_run_tile(struct model *model, const float *hidden, uint32_t rows) {
    struct scratch *s = model->scratch;
    uint32_t width = model->shape->hidden;
    const struct packed_matrix *head = &model->weights.head;
    enum input_kind kind = compute_kind(model, head);
    for (uint32_t i = 0; i < rows; i++)
        linear_prepare(model->kernels, kind, hidden + (size_t)i * width, width, &s->input, i);
    token_loop_linear(model, head, &s->input, s->logits, s->vocab_stride, rows);
}

static uint32_t compute_cpu_tile_rows(uint32_t left) {
    return left < LOGITS_TILE ? left : LOGITS_TILE;
}

/* Computes logits, or the most likely tokens, of rows [count][hidden] after the final norm. */
static void compute_cpu_run_head(struct model *model, const float *hidden, uint32_t count,
                                 float *logits, uint32_t *argmax_out) {
    const struct scratch *s = model->scratch;
    uint32_t width = model->shape->hidden, vocab = model->shape->vocab;
    for (uint32_t first = 0; first < count; first += LOGITS_TILE) {
        uint32_t rows = compute_cpu_tile_rows(count - first);
        compute_cpu_run_tile(model, hidden + (size_t)first * width, rows);
        for (uint32_t i = 0; i < rows; i++) {
            const float *from = s->logits + (size_t)i * s->vocab_stride;
            if (logits) memcpy(logits + (size_t)(first + i) * vocab, from, vocab * sizeof *from);
            if (argmax_out) argmax_out[first + i] = compute_cpu_largest(from, vocab);
        }
    }
}

static void compute_cpu_write_logits(struct model *model, uint32_t count, float *logits) {
    compute_cpu_run_head(model, model->scratch->normed, count, logits, NULL);
}

/* Applies the final norm to the step's tokens [first, first + count). */
static void compute_cpu_normalize_row(const struct model *model, uint32_t first, uint32_t count,
                                      float *to) {
    uint32_t hidden = model->shape->hidden, streams = model->shape->streams;
    for (uint32_t i = 0; i < count; i++) {
        const struct scratch *s = model->scratch;
        const float *x = s->x + (size_t)(first + i) * hidden * streams;
        float *out = to + (size_t)i * hidden;
        if (streams > 1) {
            hyper_connections_collapse(
                model, &model->weights.head_streams, x,
                s->stream_mixes + (size_t)(first + i) * s->stream_mixes_stride, out);
            x = out;
        }
        model->kernels->rmsnorm(out, x, model->weights.final_norm, hidden,
                                model->shape->rms_epsilon);
    }
}

static void compute_cpu_gather_outputs(struct model *model, uint32_t first, uint32_t count,
                                       uint32_t row) {
    compute_cpu_normalize_row(model, first, count,
                              model->scratch->normed + (size_t)row * model->shape->hidden);
}

static uint32_t compute_cpu_find_greedy(struct model *model, uint32_t token) {
    uint32_t likeliest;
    const size_t hidden = model->shape->hidden;
    const float *output = model->scratch->hidden + token * hidden * model->shape->streams;
    if (model->shape->streams > 1) {
        hyper_connections_collapse(model, &model->weights.head_streams, output, NULL,
                                   model->scratch->normed);
        output = model->scratch->normed;
        model->kernels->rmsnorm(model->scratch->normed, output, model->weights.final_norm,
                                (uint32_t)hidden, model->shape->rms_epsilon);
    }
    compute_cpu_run_head(model, output, 1, NULL, &likeliest);
    return likeliest;
}

struct show { /* a tile of logits for the viewer */
    const struct scratch *scratch;
    compute_logits_viewer *view;
    void *context;
    uint32_t first;
};

static void show_tile(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct show *show = context;
    const struct scratch *s = show->scratch;
    for (uint32_t i = first; i < first + count; i++)
        show->view(show->context, show->first + i, s->logits + (size_t)i * s->vocab_stride);
}

static void compute_cpu_show_logits(struct model *model, uint32_t first, uint32_t count,
                                    compute_logits_viewer *view, void *context) {
    struct show show = {model->scratch, view, context, 0};
    for (; show.first < count; show.first += LOGITS_TILE) {
        uint32_t rows = compute_cpu_tile_rows(count - show.first);
        compute_cpu_gather_outputs(model, first + show.first, rows, 0);
        compute_cpu_run_tile(model, model->scratch->normed, rows);
        team_run(model->team, show_tile, &show, rows, 1);
    }
}

static void keep_output(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct model *model = context;
    const size_t channels = (size_t)model->shape->hidden * model->shape->streams;
    float *to = model->scratch->hidden + first * channels;
    if (model->shape->streams > 1) /* MTP reads the streams themselves */
        memcpy(to, model->scratch->x + first * channels, count * channels * sizeof *to);
    else
        compute_cpu_normalize_row(model, first, count, to);
}

static void compute_cpu_keep_outputs(struct model *model) {
    token_loop_run(model, keep_output, model, model->batch.token_count);
}

/* ---- MTP ---- */

static float *kept(const struct model *model, uint32_t slot, uint32_t index) {
    size_t row = (size_t)slot * (1 + LIMIT_DRAFTS) + index;
    return model->scratch->kept + row * model->shape->hidden * model->shape->streams;
}

static void compute_cpu_keep_slot(struct model *model, uint32_t slot, uint32_t first,
                                  uint32_t count) {
    size_t hidden = (size_t)model->shape->hidden * model->shape->streams;
    memcpy(kept(model, slot, 0), model->scratch->hidden + first * hidden,
           count * hidden * sizeof(float));
}

static const float *output(const struct model *model, struct output_ref ref) {
    if (ref.slot != OUTPUT_OF_STEP) return kept(model, ref.slot, ref.index);
    return model->scratch->hidden + (size_t)ref.index * model->shape->hidden;
}

/* Item i is position i of the concatenation of model.mtp_rows and model.mtp_batch. */
static void prepare_pair(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct model *model = context;
    struct scratch *s = model->scratch;
    const struct mtp_weights *mtp = model->weights.mtp;
    uint32_t hidden = model->shape->hidden;
    enum input_kind kind = compute_kind(model, &mtp->projection);
    for (uint32_t i = first; i < first + count; i++) {
        bool whole = i >= model->mtp_rows.token_count;
        const struct batch *batch = whole ? &model->mtp_batch : &model->mtp_rows;
        uint32_t at = whole ? i - model->mtp_rows.token_count : i;
        float *pair = s->mtp_pair + (size_t)i * 2 * hidden;
        tensor_to_float(model->weights.embedding, (uint64_t)batch->token_ids[at] * hidden, hidden,
                        pair);
        model->kernels->rmsnorm(pair, pair, mtp->embedding_norm, hidden, model->shape->rms_epsilon);
        model->kernels->rmsnorm(pair + hidden, output(model, batch->outputs[at]), mtp->hidden_norm,
                                hidden, model->shape->rms_epsilon);
        linear_prepare(model->kernels, kind, pair, 2 * hidden, &s->input, i);
    }
}

static void compute_cpu_project_mtp(struct model *model) {
    if (model->shape->streams > 1) {
        mtp_streams_project(model);
        return;
    }
    struct scratch *s = model->scratch;
    uint32_t tokens = model->mtp_rows.token_count + model->mtp_batch.token_count;
    const struct packed_matrix *projection = &model->weights.mtp->projection;
    token_loop_run(model, prepare_pair, model, tokens);
    token_loop_linear(model, projection, &s->input, s->mtp_u, s->hidden_stride, tokens);
}

static void compute_cpu_begin_mtp(const struct pass *pass, uint32_t first) {
    if (pass->model->shape->streams > 1) {
        mtp_streams_begin(pass, first);
        return;
    }
    const struct batch *batch = pass->batch;
    const struct scratch *s = pass->scratch;
    uint32_t hidden = pass->model->shape->hidden;
    rope_prepare(pass->model->shape, batch->positions, batch->token_count, s->angles);
    for (uint32_t i = 0; i < batch->token_count; i++)
        memcpy(s->x + (size_t)i * hidden, s->mtp_u + (size_t)(first + i) * s->hidden_stride,
               hidden * sizeof(float));
}

static void normalize_mtp(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct model *model = context;
    struct scratch *s = model->scratch;
    uint32_t hidden = model->shape->hidden;
    for (uint32_t i = first; i < first + count; i++)
        if (model->shape->streams > 1)
            mtp_streams_collapse(model, i);
        else
            model->kernels->rmsnorm(s->normed + (size_t)i * hidden, s->x + (size_t)i * hidden,
                                    model->weights.mtp->head_norm, hidden,
                                    model->shape->rms_epsilon);
}

static void compute_cpu_finish_mtp(const struct pass *pass, uint32_t *argmax_out) {
    struct model *model = pass->model;
    uint32_t tokens = pass->batch->token_count;
    token_loop_run(model, normalize_mtp, model, tokens);
    compute_cpu_run_head(model, pass->scratch->normed, tokens, NULL, argmax_out);
}

static void compute_cpu_clear_row(const struct model *model, struct page_id page, uint32_t slice,
                                  uint32_t row) {
    kv_pages_clear_row(&model->kv, page.index, slice, row);
}

static void compute_cpu_attended(const struct pass *pass, uint32_t token, uint32_t *out) {
    if (shape_is_compressed(pass->model->shape))
        compressed_index_attended(pass, token, out);
    else
        attention_index_attended(pass, token, out);
}

static void compute_cpu_report(struct model *model, uint64_t step, uint32_t slices) {
    model->follower.written(model->follower.context, step, slices);
}

static enum status end(struct model *model, struct error *error) {
    return STATUS_OK;
}

static const char *compute_cpu_name_numerics(const struct model *model) {
    return model->kernels->numerics;
}

static const struct compute compute_on_cpu = {
    .numerics = compute_cpu_name_numerics,
    .open = open_scratch,
    .close = close_scratch,
    .micro_batch = compute_cpu_take_micro_batch,
    .begin = begin,
    .report = compute_cpu_report,
    .end = end,
    .add = add,
    .attention_begin = attention_begin,
    .attention_finish = attention_finish,
    .attention_write_rows = attention_write_rows,
    .mlp_run = mlp_run,
    .experts_route = experts_route,
    .experts_dispatch = experts_dispatch,
    .experts_run_shared = experts_run_shared,
    .experts_run_routed = experts_run_routed,
    .experts_finish = experts_finish,
    .experts_sum = experts_sum,
    .experts_chosen = experts_chosen,
    .rows_attended = compute_cpu_attended,
    .outputs = compute_cpu_gather_outputs,
    .logits = compute_cpu_write_logits,
    .show_logits = compute_cpu_show_logits,
    .keep_outputs = compute_cpu_keep_outputs,
    .greedy = compute_cpu_find_greedy,
    .keep_slot = compute_cpu_keep_slot,
    .mtp_project = compute_cpu_project_mtp,
    .mtp_begin = compute_cpu_begin_mtp,
    .mtp_finish = compute_cpu_finish_mtp,
    .clear_row = compute_cpu_clear_row,
};

const struct model_device model_on_cpu = {"cpu", &compute_on_cpu, NULL};
