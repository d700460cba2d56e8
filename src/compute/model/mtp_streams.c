/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/mtp_streams.h"

#include "compute/model/hyper_connections.h"
#include "compute/model/rope.h"
#include "compute/model/token_loop.h"

#include <string.h>

#define EMBEDDING UINT32_MAX

/* Prepares a linear's inputs: of one stream, or of the embeddings. */
struct projection {
    struct model *model;
    uint32_t stream; /* EMBEDDING: none */
};

/* Position `index` of the concatenation of model.mtp_rows and model.mtp_batch. */
static const struct batch *batch_at(const struct model *model, uint32_t index, uint32_t *at_out) {
    const uint32_t rows = model->mtp_rows.token_count;
    *at_out = index < rows ? index : index - rows;
    return index < rows ? &model->mtp_rows : &model->mtp_batch;
}

static const float *streams_of(const struct model *model, struct output_ref ref) {
    const size_t channels = (size_t)model->shape->streams * model->shape->hidden;
    const size_t row = (size_t)ref.slot * (1 + LIMIT_DRAFTS) + ref.index;
    if (ref.slot != OUTPUT_OF_STEP) return model->scratch->kept + row * channels;
    return model->scratch->hidden + ref.index * channels;
}

static void prepare_inputs(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct projection *of = context;
    const struct model *model = of->model;
    const struct mtp_weights *mtp = model->weights.mtp;
    const struct shape *shape = model->shape;
    const uint32_t hidden = shape->hidden;
    const bool embeds = of->stream == EMBEDDING;
    const enum input_kind kind =
        compute_kind(model, embeds ? &mtp->embedding_projection : &mtp->hidden_projection);
    float *row = model->scratch->stream_room + (size_t)member * shape->streams * hidden;
    for (uint32_t i = first; i < first + count; i++) {
        uint32_t at;
        const struct batch *batch = batch_at(model, i, &at);
        const float *from = row;
        if (embeds)
            tensor_to_float(model->weights.embedding, (uint64_t)batch->token_ids[at] * hidden,
                            hidden, row);
        else
            from = streams_of(model, batch->outputs[at]) + (size_t)of->stream * hidden;
        model->kernels->rmsnorm(row, from, embeds ? mtp->embedding_norm : mtp->hidden_norm, hidden,
                                shape->rms_epsilon);
        linear_prepare(model->kernels, kind, row, hidden, &model->scratch->input, i);
    }
}

static void add_embeddings(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct model *model = context;
    const struct scratch *s = model->scratch;
    const uint32_t streams = model->shape->streams;
    for (uint32_t i = first; i < first + count; i++)
        for (uint32_t k = 0; k < streams; k++)
            model->kernels->add_scaled(s->mtp_u + ((size_t)i * streams + k) * s->hidden_stride,
                                       s->y + (size_t)i * s->hidden_stride, 1,
                                       model->shape->hidden);
}

void mtp_streams_project(struct model *model) {
    struct scratch *s = model->scratch;
    const struct mtp_weights *mtp = model->weights.mtp;
    const uint32_t tokens = model->mtp_rows.token_count + model->mtp_batch.token_count;
    struct projection of = {model, 0};
    for (; of.stream < model->shape->streams; of.stream++) {
        token_loop_run(model, prepare_inputs, &of, tokens);
        token_loop_linear(model, &mtp->hidden_projection, &s->input,
                          s->mtp_u + (size_t)of.stream * s->hidden_stride,
                          (size_t)model->shape->streams * s->hidden_stride, tokens);
    }
    of.stream = EMBEDDING;
    token_loop_run(model, prepare_inputs, &of, tokens);
    token_loop_linear(model, &mtp->embedding_projection, &s->input, s->y, s->hidden_stride, tokens);
    token_loop_run(model, add_embeddings, model, tokens);
}

void mtp_streams_begin(const struct pass *pass, uint32_t first) {
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    const struct shape *shape = model->shape;
    const uint32_t streams = shape->streams;
    rope_prepare(shape, pass->batch->positions, pass->batch->token_count, s->angles);
    for (uint32_t i = 0; i < pass->batch->token_count; i++)
        for (uint32_t k = 0; k < streams; k++)
            memcpy(s->x + ((size_t)i * streams + k) * shape->hidden,
                   s->mtp_u + ((size_t)(first + i) * streams + k) * s->hidden_stride,
                   shape->hidden * sizeof *s->x);
}

void mtp_streams_collapse(const struct model *model, uint32_t token) {
    const struct shape *shape = model->shape;
    const struct scratch *s = model->scratch;
    float *out = s->normed + (size_t)token * shape->hidden;
    hyper_connections_collapse(model, &model->weights.mtp->head_streams,
                               s->x + (size_t)token * shape->streams * shape->hidden,
                               s->stream_mixes + (size_t)token * s->stream_mixes_stride, out);
    model->kernels->rmsnorm(out, out, model->weights.mtp->head_norm, shape->hidden,
                            shape->rms_epsilon);
}
