/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/hyper_connections.h"

#include "compute/model/token_loop.h"

#include <math.h>
#include <string.h>

#define SUM_LANES 16

static float sigmoid(float x) {
    return 1.0f / (1.0f + kernels_exp(-x));
}

/* Divides rows, or columns, by their sums. */
static void divide_by_sums(float *matrix, uint32_t n, bool columns, float epsilon) {
    const uint32_t along = columns ? n : 1, across = columns ? 1 : n;
    for (uint32_t i = 0; i < n; i++) {
        float sum = 0;
        for (uint32_t k = 0; k < n; k++)
            sum += matrix[i * across + k * along];
        for (uint32_t k = 0; k < n; k++)
            matrix[i * across + k * along] /= sum + epsilon;
    }
}

static void softmax_row(float *row, uint32_t n, float epsilon) {
    float largest = row[0], sum = 0;
    for (uint32_t k = 1; k < n; k++)
        largest = row[k] > largest ? row[k] : largest;
    for (uint32_t k = 0; k < n; k++)
        sum += row[k] = kernels_exp(row[k] - largest);
    for (uint32_t k = 0; k < n; k++)
        row[k] = row[k] / sum + epsilon;
}

void hyper_connections_mix(const struct shape *shape, const float *scale, const float *base,
                           float *mixes) {
    const uint32_t n = shape->streams;
    const float epsilon = shape->stream_epsilon;
    float *pre = mixes, *post = mixes + n, *comb = mixes + 2 * n;
    for (uint32_t k = 0; k < n; k++) {
        pre[k] = sigmoid(pre[k] * scale[0] + base[k]) + epsilon;
        post[k] = 2 * sigmoid(post[k] * scale[1] + base[n + k]);
    }
    for (uint32_t i = 0; i < n * n; i++)
        comb[i] = comb[i] * scale[2] + base[2 * n + i];
    for (uint32_t j = 0; j < n; j++)
        softmax_row(comb + (size_t)j * n, n, epsilon);
    divide_by_sums(comb, n, true, epsilon);
    for (uint32_t round = 1; round < shape->stream_rounds; round++) {
        divide_by_sums(comb, n, false, epsilon);
        divide_by_sums(comb, n, true, epsilon);
    }
}

void hyper_connections_mix_head(const struct shape *shape, const float *scale, const float *base,
                                float *mixes) {
    for (uint32_t k = 0; k < shape->streams; k++)
        mixes[k] = sigmoid(mixes[k] * scale[0] + base[k]) + shape->stream_epsilon;
}

/* 1 / sqrt(mean of x^2 + epsilon), in fixed lanes. */
static float norm_factor(const float *x, size_t count, float epsilon) {
    float lanes[SUM_LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + SUM_LANES <= count; i += SUM_LANES)
        for (uint32_t lane = 0; lane < SUM_LANES; lane++)
            lanes[lane] += x[i + lane] * x[i + lane];
    for (; i < count; i++)
        lanes[i % SUM_LANES] += x[i] * x[i];
    for (uint32_t lane = 0; lane < SUM_LANES; lane++)
        sum += lanes[lane];
    return 1.0f / sqrtf(sum / (float)count + epsilon);
}

void hyper_connections_begin(const struct model *model, uint32_t token) {
    const struct shape *shape = model->shape;
    const size_t hidden = shape->hidden;
    float *x = model->scratch->x + token * shape->streams * hidden;
    float *mixes =
        model->scratch->stream_mixes + (size_t)token * model->scratch->stream_mixes_stride;
    for (uint32_t k = 1; k < shape->streams; k++)
        memcpy(x + k * hidden, x, hidden * sizeof *x);
    memset(mixes, 0, shape->streams * sizeof *mixes);
    mixes[0] = 1;
}

static void read_streams(const struct model *model, const float *x, const float *pre, float *out) {
    const uint32_t hidden = model->shape->hidden;
    memset(out, 0, hidden * sizeof *out);
    for (uint32_t k = 0; k < model->shape->streams; k++)
        model->kernels->add_scaled(out, x + (size_t)k * hidden, pre[k], hidden);
}

struct site {
    const struct pass *pass;
    const struct stream_weights *weights;
};

static void enter_tokens(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct site *site = context;
    const struct model *model = site->pass->model;
    const struct scratch *s = site->pass->scratch;
    const struct shape *shape = model->shape;
    const size_t channels = (size_t)shape->streams * shape->hidden;
    const uint32_t numbers = hyper_connections_count(shape);
    for (uint32_t token = first; token < first + count; token++) {
        const float *x = s->x + token * channels;
        float *mixes = s->stream_mixes + (size_t)token * s->stream_mixes_stride;
        float *normed = s->normed + (size_t)token * shape->hidden;
        if (shape->streams_delayed) read_streams(model, x, mixes, normed);
        memcpy(mixes, s->stream_products + (size_t)token * s->stream_mixes_stride,
               numbers * sizeof *mixes);
        model->kernels->scale(mixes, norm_factor(x, channels, shape->rms_epsilon), numbers);
        hyper_connections_mix(shape, site->weights->scale, site->weights->base, mixes);
        if (!shape->streams_delayed) read_streams(model, x, mixes, normed);
    }
}

void hyper_connections_enter(const struct pass *pass, const struct stream_weights *weights) {
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    const struct shape *shape = model->shape;
    struct linear_input input = linear_plain(s->x, (size_t)shape->streams * shape->hidden, false);
    struct matmul job = linear_job(&weights->fn, &input, s->stream_products, s->stream_mixes_stride,
                                   pass->batch->token_count);
    struct site site = {pass, weights};
    linear_run(model->kernels, model->team, &job, 1);
    token_loop_run(model, enter_tokens, &site, pass->batch->token_count);
}

static void add_tokens(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    const uint32_t hidden = model->shape->hidden, n = model->shape->streams;
    float *changed = s->stream_room + (size_t)member * n * hidden;
    for (uint32_t token = first; token < first + count; token++) {
        float *x = s->x + (size_t)token * n * hidden;
        const float *post = s->stream_mixes + (size_t)token * s->stream_mixes_stride + n;
        const float *comb = post + n, *y = s->y + (size_t)token * s->hidden_stride;
        memset(changed, 0, (size_t)n * hidden * sizeof *changed);
        for (uint32_t k = 0; k < n; k++) {
            model->kernels->add_scaled(changed + (size_t)k * hidden, y, post[k], hidden);
            for (uint32_t j = 0; j < n; j++)
                model->kernels->add_scaled(changed + (size_t)k * hidden, x + (size_t)j * hidden,
                                           comb[j * n + k], hidden);
        }
        memcpy(x, changed, (size_t)n * hidden * sizeof *x);
    }
}

void hyper_connections_add(const struct pass *pass) {
    token_loop_run(pass->model, add_tokens, (void *)(uintptr_t)pass, pass->batch->token_count);
}

void hyper_connections_collapse(const struct model *model, const struct stream_weights *weights,
                                const float *streams, const float *mixes, float *out) {
    const struct shape *shape = model->shape;
    const size_t channels = (size_t)shape->streams * shape->hidden;
    float pre[MATMUL_PANEL];
    if (shape->streams_delayed) {
        read_streams(model, streams, mixes, out);
        return;
    }
    struct linear_input input = linear_plain(streams, channels, false);
    struct matmul job = linear_job(&weights->fn, &input, pre, MATMUL_PANEL, 1);
    model->kernels->matmul(&job, 0, 1);
    model->kernels->scale(pre, norm_factor(streams, channels, shape->rms_epsilon), shape->streams);
    hyper_connections_mix_head(shape, weights->scale, weights->base, pre);
    read_streams(model, streams, pre, out);
}
