/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/engram.h"

#include "base/number.h"
#include "compute/model/token_loop.h"

#include <math.h>
#include <string.h>

#define GATE_FLOOR 1e-6
#define SCALE_CHANNELS 32

enum status engram_open(struct model *model, struct error *error) {
    const struct shape *shape = model->shape;
    const char *directory = checkpoint_directory(model->checkpoint);
    if (!shape->engram_layers) return STATUS_OK;
    engram_hash_open(shape, &model->engram_hash);
    enum status status = engram_fold_open(directory, shape->vocab, &model->engram_fold, error);
    if (status == STATUS_OK && model->engram_fold.folded != shape->engram_folded)
        status = error_set(error, STATUS_INVALID,
                           "%s: engram_compressed_vocab_size is %u, but tokenizer.json folds to %u "
                           "ids; fetch both from the same release",
                           directory, shape->engram_folded, model->engram_fold.folded);
    for (uint32_t i = 0; status == STATUS_OK && i < shape->engram_layers; i++)
        if (model->engram_hash.rows[i] != shape->engram_table_rows[i])
            status = error_set(error, STATUS_INVALID,
                               "%s: engram_num_embeddings[%u] is %u, expected %llu, the sum of the "
                               "table's primes",
                               directory, i, shape->engram_table_rows[i],
                               (unsigned long long)model->engram_hash.rows[i]);
    return status;
}

void engram_close(struct model *model) {
    engram_fold_close(&model->engram_fold);
}

/* The folded id of a position, which may be before the run or before the sequence. */
static uint32_t id_at(const struct model *model, const struct run *run, int64_t position) {
    const struct batch *batch = &model->batch;
    if (position < 0) return model->engram_fold.ids[model->shape->engram_pad];
    if (position >= run->first_position)
        return model->engram_fold
            .ids[batch->token_ids[run->first + (uint32_t)position - run->first_position]];
    return model->state.ids[(size_t)run->slot * STATE_IDS + (uint32_t)position % STATE_IDS];
}

void engram_begin(struct model *model) {
    const struct batch *batch = &model->batch;
    const uint32_t ngram = model->shape->engram_ngram;
    if (!model->shape->engram_layers) return;
    for (uint32_t i = 0; i < batch->run_count; i++) {
        const struct run *run = &batch->runs[i];
        for (uint32_t t = 0; t < run->token_count; t++)
            for (uint32_t n = 0; n < ngram; n++)
                model->scratch->engram_ids[(size_t)(run->first + t) * ngram + n] =
                    id_at(model, run, (int64_t)run->first_position + t - n);
        const uint32_t kept = min_u32(run->token_count, STATE_IDS);
        for (uint32_t t = run->token_count - kept; t < run->token_count; t++)
            model->state
                .ids[(size_t)run->slot * STATE_IDS + (run->first_position + t) % STATE_IDS] =
                model->engram_fold.ids[batch->token_ids[run->first + t]];
    }
}

/* The values of a table's row. */
static void read_table_row(const struct engram_weights *weights, uint64_t row, uint32_t width,
                           float *out) {
    tensor_to_float(weights->table, row * width, width, out);
    for (uint32_t c = 0; c < width; c += SCALE_CHANNELS) {
        float scale;
        tensor_to_float(weights->scales, (row * width + c) / SCALE_CHANNELS, 1, &scale);
        for (uint32_t i = c; i < c + SCALE_CHANNELS; i++)
            out[i] *= scale;
    }
}

static void look_up_rows(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    struct scratch *s = pass->scratch;
    const struct engram_weights *weights = &compute_weights(pass)->engram;
    const uint32_t rows = shape_engram_rows(shape), width = shape->engram_dim;
    const uint32_t table = shape_engram_table(shape, pass->layer);
    float *values = s->engram_room + (size_t)member * rows * width;
    for (uint32_t token = first; token < first + count; token++) {
        uint32_t wanted[ENGRAM_ROWS_MAX];
        engram_hash_rows(shape, &model->engram_hash, table,
                         s->engram_ids + (size_t)token * shape->engram_ngram, wanted);
        for (uint32_t i = 0; i < rows; i++)
            read_table_row(weights, wanted[i], width, values + (size_t)i * width);
        linear_prepare(model->kernels, compute_kind(model, &weights->kv), values, rows * width,
                       &s->input, token);
    }
}

float engram_gate(const float *stream, const float *key, const float *q_norm, const float *k_norm,
                  uint32_t hidden, float epsilon) {
    double dot = 0, streams = 0, keys = 0;
    for (uint32_t i = 0; i < hidden; i++) {
        dot += (double)stream[i] * (double)q_norm[i] * (double)k_norm[i] * (double)key[i];
        streams += (double)stream[i] * (double)stream[i];
        keys += (double)key[i] * (double)key[i];
    }
    const double eps = (double)epsilon;
    const double d = dot / sqrt(streams / hidden + eps) / sqrt(keys / hidden + eps) / sqrt(hidden);
    const double root = copysign(sqrt(fmax(fabs(d), GATE_FLOOR)), d);
    return (float)(1 / (1 + exp(-root)));
}

static void add_values(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    const struct scratch *s = pass->scratch;
    const struct engram_weights *weights = &compute_weights(pass)->engram;
    const uint32_t hidden = shape->hidden;
    for (uint32_t token = first; token < first + count; token++) {
        const float *keys = s->engram_out + (size_t)token * s->engram_out_stride;
        const float *value = keys + (size_t)shape->streams * hidden;
        for (uint32_t k = 0; k < shape->streams; k++) {
            const size_t at = (size_t)k * hidden;
            float *stream = s->x + ((size_t)token * shape->streams + k) * hidden;
            const float gate = engram_gate(stream, keys + at, weights->q_norm + at,
                                           weights->k_norm + at, hidden, shape->rms_epsilon);
            model->kernels->add_scaled(stream, value, gate, hidden);
        }
    }
}

void engram_run(const struct pass *pass) {
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    const uint32_t tokens = pass->batch->token_count;
    const struct engram_weights *weights = &compute_weights(pass)->engram;
    if (!weights->table) return;
    token_loop_run(model, look_up_rows, (void *)(uintptr_t)pass, tokens);
    token_loop_linear(model, &weights->kv, &s->input, s->engram_out, s->engram_out_stride, tokens);
    token_loop_run(model, add_values, (void *)(uintptr_t)pass, tokens);
}
