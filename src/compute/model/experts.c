/* SPDX-License-Identifier: Apache-2.0
 * A MoE layer on the CPU: router, dispatch, shared expert, routed experts, combine.
 *
 *   y = sum of w_e * round(expert_e(x)) over the chosen experts e, F32, in the model's order: first
 *       within each group, or expert by expert (expert_sum.h)
 *   y = y + shared(x), if the shape has shared experts
 *
 * Each routed result is rounded to the exchange type (BF16; F32 in the f32 modes) before the sum,
 * as if it had been received, so that one rank and many give the same bits. The router reads the
 * unrounded f32 input. The experts' inputs are prepared once per token and gathered.
 *
 * (token, expert) pairs are computed in waves of a bounded number of pairs, ascending by slot. The
 * team's loop over a wave has all experts' panels as items. A few tokens thus occupy all threads,
 * and a long prompt does not need memory for all its pairs at once.
 *
 * With several ranks, dispatch sends prepared inputs, and combine returns rounded results or sums
 * of a group (exchange_rows.h). A token's results are summed when all have arrived. On a single
 * rank nothing is copied, and results are summed wave by wave. The schedule (contract/overlap.h)
 * decides which stages run in between.
 */
#include "compute/model/experts.h"

#include "compute/model/expert_sum.h"
#include "compute/model/hyper_connections.h"
#include "compute/model/router.h"
#include "compute/model/token_loop.h"

#include <math.h>
#include <string.h>

struct expert_batch {
    const struct pass *pass;
    const struct exchange_received *received;
    const struct exchange_returned *returned;
    struct exchange_group groups[LIMIT_EXPERTS]; /* received groups, or parts of large ones */
    uint32_t group_count;
    uint32_t first_row, row_count;
};

static bool experts_has_shared(const struct pass *pass) {
    return pass->model->shape->shared_experts != 0;
}

static enum input_kind routed_kind(const struct pass *pass) {
    return compute_kind(pass->model, &pass->model->weights.expert.matrices.gate);
}

static enum input_kind intermediate_kind(const struct pass *pass) {
    return compute_kind(pass->model, &pass->model->weights.expert.matrices.down);
}

static void experts_route_each(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    struct scratch *s = pass->scratch;
    uint32_t per_token = pass->model->shape->experts_per_token;
    const struct layer_weights *weights = compute_weights(pass);
    for (uint32_t token = first; token < first + count; token++) {
        const float *logits = s->router_logits + (size_t)token * s->experts_stride;
        uint32_t *experts = s->experts + (size_t)token * per_token;
        float *expert_weights = s->expert_weights + (size_t)token * per_token;
        if (weights->router_hash)
            router_weigh_hashed(pass->model->shape, logits,
                                weights->router_hash +
                                    (size_t)pass->batch->token_ids[token] * per_token,
                                experts, expert_weights);
        else
            router_choose(pass->model->shape, logits, weights->router_bias, experts,
                          expert_weights);
    }
}

/* Adds the jobs of the shared expert's gate and up. Returns their number. */
static uint32_t shared_jobs(const struct pass *pass, const struct linear_input *input,
                            struct matmul *jobs) {
    const struct scratch *s = pass->scratch;
    uint32_t tokens = pass->batch->token_count;
    if (!experts_has_shared(pass)) return 0;
    const struct mlp_weights *shared = &compute_weights(pass)->shared;
    jobs[0] = linear_job(&shared->gate, input, s->shared_gate, s->micro_batch_stride, tokens);
    jobs[1] = linear_job(&shared->up, input, s->shared_up, s->micro_batch_stride, tokens);
    return 2;
}

/* Computes the router's logits, then the choice. If there is no dispatch to hide, the shared
 * expert's gate and up run in the same loop. */
static void run_router(const struct pass *pass) {
    struct model *model = pass->model;
    struct scratch *s = pass->scratch;
    uint32_t tokens = pass->batch->token_count, job_count = 1;
    struct linear_input plain = linear_plain(s->normed, model->shape->hidden, false);
    const struct layer_weights *weights = compute_weights(pass);
    struct linear_input shared =
        linear_prepared(compute_kind(model, &weights->shared.gate), &s->input_shared, 0);
    struct matmul jobs[3] = {
        linear_job(&weights->router, &plain, s->router_logits, s->experts_stride, tokens)};
    if (!exchange_moves_rows(pass->exchange)) job_count += shared_jobs(pass, &shared, jobs + 1);
    linear_run(model->kernels, model->team, jobs, job_count);
    pass_part(pass, PART_GATE);
    token_loop_run(model, experts_route_each, (void *)(uintptr_t)pass, tokens);
    pass_part(pass, PART_TOP_K);
}

static void pack_activations(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    uint32_t hidden = model->shape->hidden;
    size_t row_bytes = exchange_rows_bytes(model->dispatch_form, hidden);
    for (uint32_t token = first; token < first + count; token++)
        linear_row_out(model->dispatch_form, hidden, &s->input, token,
                       s->outgoing + token * row_bytes);
}

static void unpack_rows(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct expert_batch *expert_batch = context;
    const struct model *model = expert_batch->pass->model;
    const struct scratch *s = expert_batch->pass->scratch;
    for (uint32_t row = first; row < first + count; row++) {
        uint32_t token = expert_batch->received->row_token[expert_batch->first_row + row];
        linear_row_in(model->dispatch_form, model->shape->hidden,
                      expert_batch->received->token_data[token], &s->expert_input, row);
    }
}

static void gather_rows(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct expert_batch *expert_batch = context;
    const struct scratch *s = expert_batch->pass->scratch;
    for (uint32_t row = first; row < first + count; row++)
        linear_copy(routed_kind(expert_batch->pass), expert_batch->pass->model->shape->hidden,
                    &s->input, expert_batch->received->row_token[expert_batch->first_row + row],
                    &s->expert_input, row);
}

/* silu(gate) * up, both within swiglu_limit (V4). */
static void gate_values(const struct model *model, float *gate, float *up, uint32_t width) {
    const float limit = model->shape->swiglu_limit;
    for (uint32_t i = 0; limit < INFINITY && i < width; i++) {
        gate[i] = gate[i] < limit ? gate[i] : limit;
        up[i] = up[i] < -limit ? -limit : up[i] < limit ? up[i] : limit;
    }
    model->kernels->silu_multiply(gate, gate, up, width);
}

/* V4 multiplies by a token's weight before w2. That matters only where w2's input is quantized, and
 * only there it is done: elsewhere results are weighed at home, as ranks do. */
static bool weighs_early(const struct model *model) {
    const bool fp8 =
        model->activations == ACTIVATIONS_FP8 || model->activations == ACTIVATIONS_FP8_F32;
    return fp8 && model->weights.expert.matrices.down.input_group;
}

/* The weight of a row's token for the row's expert, on a single rank. */
static float weight_of_row(const struct expert_batch *expert_batch, uint32_t row) {
    const struct scratch *s = expert_batch->pass->scratch;
    const uint32_t per_token = expert_batch->pass->model->shape->experts_per_token;
    const size_t token = expert_batch->received->row_token[expert_batch->first_row + row];
    uint32_t expert = 0;
    for (uint32_t i = 0; i < expert_batch->group_count; i++) {
        const struct exchange_group *group = &expert_batch->groups[i];
        const uint32_t first = group->first_row - expert_batch->first_row;
        if (row >= first && row - first < group->row_count) expert = group->slot;
    }
    for (uint32_t k = 0; k < per_token; k++)
        if (s->experts[token * per_token + k] == expert)
            return s->expert_weights[token * per_token + k];
    return 1;
}

static void experts_activate(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct expert_batch *expert_batch = context;
    const struct model *model = expert_batch->pass->model;
    const struct scratch *s = expert_batch->pass->scratch;
    uint32_t width = model->shape->expert_width;
    for (uint32_t row = first; row < first + count; row++) {
        float *gate = s->expert_gate + (size_t)row * s->expert_stride;
        gate_values(model, gate, s->expert_up + (size_t)row * s->expert_stride, width);
        if (weighs_early(model))
            model->kernels->scale(gate, weight_of_row(expert_batch, row), width);
        linear_prepare(model->kernels, intermediate_kind(expert_batch->pass), gate, width,
                       &s->expert_intermediate, row);
    }
}

static void round_results(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct expert_batch *expert_batch = context;
    const struct model *model = expert_batch->pass->model;
    for (uint32_t row = first; row < first + count; row++) {
        float *y = expert_batch->pass->scratch->expert_y +
                   (size_t)row * expert_batch->pass->scratch->hidden_stride;
        model->kernels->round_bf16(y, y, model->shape->hidden);
    }
}

static void experts_pack_results(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct expert_batch *expert_batch = context;
    const struct model *model = expert_batch->pass->model;
    const struct scratch *s = expert_batch->pass->scratch;
    for (uint32_t row = first; row < first + count; row++)
        exchange_rows_pack(
            model->kernels, model->combine_form, s->expert_y + (size_t)row * s->hidden_stride,
            model->shape->hidden,
            exchange_result(expert_batch->pass->exchange, expert_batch->first_row + row));
}

struct sums {
    struct model *model;
    const struct exchange_sum *list;
};

static void experts_sum_some(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct sums *sums = context;
    const struct model *model = sums->model;
    const struct scratch *s = model->scratch;
    uint32_t hidden = model->shape->hidden;
    float *y = s->returning + (size_t)member * s->hidden_stride;
    for (uint32_t i = first; i < first + count; i++) {
        const struct exchange_sum *sum = &sums->list[i];
        memset(y, 0, hidden * sizeof *y);
        expert_sum_add(model->kernels, model->combine_form, y, sum->results, sum->weights,
                       sum->count, hidden, s->group_room + (size_t)member * s->hidden_stride);
        exchange_rows_pack(model->kernels, model->combine_form, y, hidden, sum->sum);
    }
}

void experts_sum(void *context, const struct exchange_sum *list, uint32_t count) {
    struct sums sums = {.model = context, .list = list};
    token_loop_run(sums.model, experts_sum_some, &sums, count);
}

struct returns {
    const struct pass *pass;
    const struct exchange_returned *returned;
};

/* Sums each token's received results, group by group. */
static void combine_groups(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct returns *returns = context;
    const struct model *model = returns->pass->model;
    const struct scratch *s = returns->pass->scratch;
    uint32_t per_token = model->shape->experts_per_token, hidden = model->shape->hidden;
    size_t row_bytes = exchange_rows_bytes(model->combine_form, hidden);
    const char *rows[LIMIT_TOP_K_EXPERTS];
    static const float once = 1;
    for (uint32_t token = first; token < first + count; token++)
        for (uint32_t k = 0, run; k < per_token; k += run) {
            size_t pair = (size_t)token * per_token + k;
            const uint32_t *from = returns->returned->token_rows + pair;
            run = exchange_group_run(s->experts + pair, per_token - k, model->group_experts);
            bool summed = run > 1 && from[1] == EXCHANGE_SUMMED; /* summed by the sender */
            uint32_t row_count = summed ? 1 : run;
            for (uint32_t i = 0; i < row_count; i++)
                rows[i] = returns->returned->results + from[i] * row_bytes;
            expert_sum_add(model->kernels, model->combine_form,
                           s->y + (size_t)token * s->hidden_stride, rows,
                           summed ? &once : s->expert_weights + pair, row_count, hidden,
                           s->group_room + (size_t)member * s->hidden_stride);
        }
}

/* Sums each token's received results. */
static void combine_returned(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct returns *returns = context;
    const struct model *model = returns->pass->model;
    const struct scratch *s = returns->pass->scratch;
    uint32_t per_token = model->shape->experts_per_token, hidden = model->shape->hidden;
    size_t row_bytes = exchange_rows_bytes(model->combine_form, hidden);
    float *result = s->returning + (size_t)member * s->hidden_stride;
    for (size_t pair = (size_t)first * per_token; pair < (size_t)(first + count) * per_token;
         pair++) {
        exchange_rows_unpack(model->kernels, model->combine_form,
                             returns->returned->results +
                                 returns->returned->token_rows[pair] * row_bytes,
                             hidden, result);
        model->kernels->add_scaled(s->y + pair / per_token * s->hidden_stride, result,
                                   s->expert_weights[pair], hidden);
    }
}

/* Ends a token's group: rounds its sum in group_y and adds it to y. */
static void close_group(const struct pass *pass, uint32_t token) {
    const struct model *model = pass->model;
    const struct scratch *s = pass->scratch;
    uint32_t hidden = model->shape->hidden;
    float *sum = s->group_y + (size_t)token * s->hidden_stride;
    if (model->rounds_bf16) model->kernels->round_bf16(sum, sum, hidden);
    model->kernels->add_scaled(s->y + (size_t)token * s->hidden_stride, sum, 1, hidden);
    memset(sum, 0, hidden * sizeof *sum);
}

/* Sums each token's results of this wave. */
static void experts_combine(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct expert_batch *expert_batch = context;
    const struct model *model = expert_batch->pass->model;
    const struct scratch *s = expert_batch->pass->scratch;
    uint32_t per_token = model->shape->experts_per_token, hidden = model->shape->hidden;
    for (uint32_t token = first; token < first + count; token++) {
        const uint32_t *rows = expert_batch->returned->token_rows + (size_t)token * per_token;
        const uint32_t *experts = s->experts + (size_t)token * per_token;
        uint32_t next = s->returned_count[token], group = model->group_experts;
        float *sum = (group ? s->group_y : s->y) + (size_t)token * s->hidden_stride;
        while (next < per_token && rows[next] < expert_batch->first_row + expert_batch->row_count) {
            const float *result =
                s->expert_y + (size_t)(rows[next] - expert_batch->first_row) * s->hidden_stride;
            const float weight =
                weighs_early(model) ? 1 : s->expert_weights[(size_t)token * per_token + next];
            model->kernels->add_scaled(sum, result, weight, hidden);
            next++;
            if (group &&
                (next == per_token || exchange_group_run(experts + next - 1, 2, group) == 1))
                close_group(expert_batch->pass, token);
        }
        s->returned_count[token] = next;
    }
}

static struct mlp_weights expert_at(const struct expert_batch *expert_batch, uint32_t index) {
    return weights_expert(&expert_batch->pass->model->weights,
                          compute_weights(expert_batch->pass)->first_slot +
                              expert_batch->groups[index].slot);
}

/* `experts` must outlive the loop over the jobs, which point into it. */
static void multiply_up(const struct expert_batch *expert_batch, struct mlp_weights *experts) {
    const struct model *model = expert_batch->pass->model;
    const struct scratch *s = expert_batch->pass->scratch;
    for (uint32_t i = 0; i < expert_batch->group_count; i++) {
        const struct exchange_group *group = &expert_batch->groups[i];
        uint32_t row = group->first_row - expert_batch->first_row;
        size_t at = (size_t)row * s->expert_stride;
        struct linear_input input =
            linear_prepared(routed_kind(expert_batch->pass), &s->expert_input, row);
        s->jobs[2 * i] = linear_job(&experts[i].gate, &input, s->expert_gate + at, s->expert_stride,
                                    group->row_count);
        s->jobs[2 * i + 1] = linear_job(&experts[i].up, &input, s->expert_up + at, s->expert_stride,
                                        group->row_count);
    }
    linear_run(model->kernels, model->team, s->jobs, 2 * expert_batch->group_count);
}

static void multiply_down(const struct expert_batch *expert_batch, struct mlp_weights *experts) {
    const struct model *model = expert_batch->pass->model;
    const struct scratch *s = expert_batch->pass->scratch;
    for (uint32_t i = 0; i < expert_batch->group_count; i++) {
        const struct exchange_group *group = &expert_batch->groups[i];
        uint32_t row = group->first_row - expert_batch->first_row;
        struct linear_input input =
            linear_prepared(intermediate_kind(expert_batch->pass), &s->expert_intermediate, row);
        s->jobs[i] =
            linear_job(&experts[i].down, &input, s->expert_y + (size_t)row * s->hidden_stride,
                       s->hidden_stride, group->row_count);
    }
    linear_run(model->kernels, model->team, s->jobs, expert_batch->group_count);
}

static void compute_expert_batch(struct expert_batch *expert_batch) {
    const struct pass *pass = expert_batch->pass;
    struct model *model = pass->model;
    struct mlp_weights experts[LIMIT_EXPERTS];
    bool carries = exchange_moves_rows(pass->exchange);
    for (uint32_t i = 0; i < expert_batch->group_count; i++)
        experts[i] = expert_at(expert_batch, i);
    token_loop_run(model, carries ? unpack_rows : gather_rows, expert_batch,
                   expert_batch->row_count);
    pass_part(pass, PART_EXPERT_INPUT);
    pass_progress(pass);
    multiply_up(expert_batch, experts);
    pass_part(pass, PART_EXPERT_UP);
    pass_progress(pass);
    token_loop_run(model, experts_activate, expert_batch, expert_batch->row_count);
    pass_part(pass, PART_EXPERT_SILU);
    multiply_down(expert_batch, experts);
    pass_part(pass, PART_EXPERT_DOWN);
    if (carries)
        token_loop_run(model, experts_pack_results, expert_batch, expert_batch->row_count);
    else if (model->rounds_bf16)
        token_loop_run(model, round_results, expert_batch, expert_batch->row_count);
    exchange_combine_begin(pass->exchange, expert_batch->first_row, expert_batch->row_count);
    pass_part(pass, PART_EXPERT_RESULT);
}

/* Takes as many of the next rows as fit. Returns false if none are left. */
static bool next_expert_batch(struct expert_batch *expert_batch, uint32_t *group,
                              uint32_t rows_max) {
    const struct exchange_received *received = expert_batch->received;
    expert_batch->first_row += expert_batch->row_count;
    expert_batch->row_count = expert_batch->group_count = 0;
    while (*group < received->group_count && expert_batch->row_count < rows_max &&
           expert_batch->group_count < LIMIT_EXPERTS) {
        struct exchange_group part = received->groups[*group];
        uint32_t done = expert_batch->first_row + expert_batch->row_count - part.first_row;
        uint32_t room = rows_max - expert_batch->row_count;
        part.first_row += done;
        part.row_count -= done;
        if (part.row_count <= room)
            ++*group;
        else
            part.row_count = room;
        expert_batch->groups[expert_batch->group_count++] = part;
        expert_batch->row_count += part.row_count;
        if (part.results_leave) break;
    }
    return expert_batch->row_count != 0;
}

void experts_dispatch(const struct pass *pass) {
    struct scratch *s = pass->scratch;
    uint32_t tokens = pass->batch->token_count;
    if (exchange_moves_rows(pass->exchange))
        token_loop_run(pass->model, pack_activations, (void *)(uintptr_t)pass, tokens);
    exchange_dispatch_begin(pass->exchange, pass->layer, s->experts, s->expert_weights, tokens,
                            s->outgoing);
    pass_part(pass, PART_SEND);
}

void experts_run_routed(const struct pass *pass) {
    struct scratch *s = pass->scratch;
    uint32_t tokens = pass->batch->token_count, group = 0;
    bool carries = exchange_moves_rows(pass->exchange);
    struct exchange_received received;
    struct exchange_returned returned;
    struct expert_batch expert_batch = {.pass = pass, .received = &received, .returned = &returned};
    exchange_dispatch_finish(pass->exchange, &received);
    for (uint32_t i = 0; i < received.group_count; i++)
        pass->model->slot_tokens[compute_weights(pass)->first_slot + received.groups[i].slot] +=
            received.groups[i].row_count;
    memset(s->y, 0, (size_t)tokens * s->hidden_stride * sizeof *s->y);
    memset(s->returned_count, 0, tokens * sizeof *s->returned_count);
    if (s->group_y) memset(s->group_y, 0, (size_t)tokens * s->hidden_stride * sizeof *s->group_y);
    while (next_expert_batch(&expert_batch, &group, s->expert_batch_rows)) {
        compute_expert_batch(&expert_batch);
        if (carries) continue;
        exchange_combine_finish(pass->exchange, &returned);
        token_loop_run(pass->model, experts_combine, &expert_batch, tokens);
        pass_part(pass, PART_COMBINE);
    }
}

static void activate_shared(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    struct scratch *s = pass->scratch;
    const struct mlp_weights *shared = &compute_weights(pass)->shared;
    uint32_t width = shared->gate.rows;
    for (uint32_t token = first; token < first + count; token++) {
        float *gate = s->shared_gate + (size_t)token * s->micro_batch_stride;
        gate_values(pass->model, gate, s->shared_up + (size_t)token * s->micro_batch_stride, width);
        linear_prepare(pass->model->kernels, compute_kind(pass->model, &shared->down), gate, width,
                       &s->input_shared, token);
    }
}

static void add_shared(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct pass *pass = context;
    const struct scratch *s = pass->scratch;
    for (uint32_t token = first; token < first + count; token++)
        pass->model->kernels->add_scaled(s->y + (size_t)token * s->hidden_stride,
                                         s->shared_y + (size_t)token * s->micro_batch_stride, 1,
                                         pass->model->shape->hidden);
}

void experts_run_shared(const struct pass *pass) {
    struct model *model = pass->model;
    struct scratch *s = pass->scratch;
    uint32_t tokens = pass->batch->token_count;
    if (!experts_has_shared(pass)) return;
    if (exchange_moves_rows(pass->exchange)) {
        struct matmul jobs[2];
        struct linear_input input = linear_prepared(
            compute_kind(model, &compute_weights(pass)->shared.gate), &s->input_shared, 0);
        linear_run(model->kernels, model->team, jobs, shared_jobs(pass, &input, jobs));
        pass_part(pass, PART_SHARED_UP);
        pass_progress(pass);
    }
    token_loop_run(model, activate_shared, (void *)(uintptr_t)pass, tokens);
    pass_part(pass, PART_SHARED_SILU);
    token_loop_linear(model, &compute_weights(pass)->shared.down, &s->input_shared, s->shared_y,
                      s->micro_batch_stride, tokens);
    pass_part(pass, PART_SHARED_DOWN);
}

void experts_route(const struct pass *pass) {
    enum input_kind shared = compute_kind(pass->model, &compute_weights(pass)->shared.gate);
    if (pass->model->shape->streams > 1)
        hyper_connections_enter(pass, &compute_weights(pass)->mlp_streams);
    token_loop_normalize(pass, compute_weights(pass)->mlp_norm, routed_kind(pass),
                         experts_has_shared(pass) ? &shared : NULL);
    pass_part(pass, PART_GATE_NORM);
    run_router(pass);
}

void experts_finish(const struct pass *pass) {
    uint32_t tokens = pass->batch->token_count;
    if (exchange_moves_rows(pass->exchange)) {
        struct exchange_returned returned;
        exchange_combine_finish(pass->exchange, &returned);
        struct returns returns = {.pass = pass, .returned = &returned};
        token_loop_run(pass->model, pass->model->group_experts ? combine_groups : combine_returned,
                       &returns, tokens);
        pass_part(pass, PART_COMBINE);
    }
    if (!experts_has_shared(pass)) return;
    token_loop_run(pass->model, add_shared, (void *)(uintptr_t)pass, tokens);
    pass_part(pass, PART_SHARED_ADD);
}

void experts_chosen(const struct pass *pass, uint32_t token, uint32_t *experts_out) {
    uint32_t count = pass->model->shape->experts_per_token;
    memcpy(experts_out, pass->scratch->experts + (size_t)token * count,
           count * sizeof *experts_out);
}
