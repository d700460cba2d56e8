/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/token_loop.h"

/* With fewer tokens, waking the team costs more than it saves. */
#define TOKENS_WORTH_SHARING 4

void token_loop_run(const struct model *model, team_work *work, void *context, uint32_t count) {
    if (count < TOKENS_WORTH_SHARING) {
        work(context, 0, count, 0);
        return;
    }
    uint32_t grain = count / (team_threads(model->team) * 4);
    team_run(model->team, work, context, count, grain ? grain : 1);
}

struct normalization {
    const struct pass *pass;
    const float *norm;
    enum input_kind input;
    const enum input_kind *shared;
};

static void normalize_tokens(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct normalization *of = context;
    const struct model *model = of->pass->model;
    const struct scratch *s = of->pass->scratch;
    uint32_t hidden = model->shape->hidden;
    for (uint32_t token = first; token < first + count; token++) {
        float *normed = s->normed + (size_t)token * hidden;
        /* with streams, the site's input is in `normed` (hyper_connections_enter) */
        const float *x = model->shape->streams > 1 ? normed : s->x + (size_t)token * hidden;
        model->kernels->rmsnorm(normed, x, of->norm, hidden, model->shape->rms_epsilon);
        linear_prepare(model->kernels, of->input, normed, hidden, &s->input, token);
        if (of->shared)
            linear_prepare(model->kernels, *of->shared, normed, hidden, &s->input_shared, token);
    }
}

void token_loop_normalize(const struct pass *pass, const float *norm, enum input_kind input,
                          const enum input_kind *shared) {
    struct normalization of = {pass, norm, input, shared};
    token_loop_run(pass->model, normalize_tokens, &of, pass->batch->token_count);
}

void token_loop_linear(const struct model *model, const struct packed_matrix *weights,
                       const struct input_buffer *buffer, float *y, size_t y_stride,
                       uint32_t rows) {
    struct linear_input input = linear_prepared(compute_kind(model, weights), buffer, 0);
    struct matmul job = linear_job(weights, &input, y, y_stride, rows);
    linear_run(model->kernels, model->team, &job, 1);
}
