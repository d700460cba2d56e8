/* SPDX-License-Identifier: Apache-2.0
 * The dense MLP of the first layers: down(silu(gate(x)) * up(x)).
 */
#include "compute/model/mlp.h"

#include "compute/model/token_loop.h"

static void mlp_activate(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    struct scratch *s = pass->scratch;
    const struct mlp_weights *dense = &compute_weights(pass)->dense;
    uint32_t width = dense->gate.rows;
    for (uint32_t token = first; token < first + count; token++) {
        float *gate = s->gate + (size_t)token * s->mlp_stride;
        pass->model->kernels->silu_multiply(gate, gate, s->up + (size_t)token * s->mlp_stride,
                                            width);
        linear_prepare(pass->model->kernels, compute_kind(pass->model, &dense->down), gate, width,
                       &s->input, token);
    }
}

void mlp_run(const struct pass *pass) {
    struct model *model = pass->model;
    struct scratch *s = pass->scratch;
    const struct mlp_weights *dense = &compute_weights(pass)->dense;
    uint32_t tokens = pass->batch->token_count;
    token_loop_normalize(pass, compute_weights(pass)->mlp_norm, compute_kind(model, &dense->gate),
                         NULL);
    struct linear_input input = linear_prepared(compute_kind(model, &dense->gate), &s->input, 0);
    struct matmul jobs[] = {
        linear_job(&dense->gate, &input, s->gate, s->mlp_stride, tokens),
        linear_job(&dense->up, &input, s->up, s->mlp_stride, tokens),
    };
    linear_run(model->kernels, model->team, jobs, 2);
    token_loop_run(model, mlp_activate, (void *)(uintptr_t)pass, tokens);
    token_loop_linear(model, &dense->down, &s->input, s->y, s->hidden_stride, tokens);
    pass_part(pass, PART_DENSE);
}
