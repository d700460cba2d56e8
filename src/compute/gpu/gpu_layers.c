/* SPDX-License-Identifier: Apache-2.0
 * A layer on a device: each function enqueues kernels on the micro-batch's stream.
 */
#include "compute/gpu/gpu_layers.h"

#include "base/check.h"
#include "compute/gpu/gpu_graphs.h"

#include <string.h>

/* ---- shared by all stages ---- */

void gpu_layers_prepare_rows(const struct model *model, struct device_stream *stream,
                             const struct gpu_rows *to, enum input_kind kind,
                             struct gpu_prepare arguments) {
    arguments.first = to->data;
    arguments.first_scales = to->scales;
    arguments.first_format = gpu_row_format_of(to, kind);
    if (arguments.epsilon == 0) arguments.epsilon = model->shape->rms_epsilon;
    if (arguments.rows) gpu_launch(model->gpu, stream, prepare, arguments);
}

void gpu_layers_multiply(const struct model *model, struct device_stream *stream,
                         const struct packed_matrix *weights, const struct gpu_rows *x,
                         enum input_kind kind, float *y, uint32_t y_stride, uint32_t rows,
                         const uint32_t *live) {
    struct gpu_product arguments = {.x = x->data,
                                    .live = live,
                                    .x_scales = x->scales,
                                    .weights = weights->data,
                                    .weight_scales = weights->scales,
                                    .y = y,
                                    .format = gpu_row_format_of(x, kind),
                                    .matrix = gpu_matrix_layout(weights),
                                    .y_stride = y_stride,
                                    .rows = rows};
    if (rows) gpu_launch(model->gpu, stream, product, arguments);
}

/* Rows of floats of the micro-batch. */
static float *gpu_layers_rows_of(const struct pass *pass, float *rows, uint32_t stride) {
    return rows + (size_t)gpu_micro_batch_of(pass)->row * stride;
}

static float *gpu_layers_x_of(const struct pass *pass) {
    const struct model *model = pass->model;
    return model->gpu->x + (size_t)gpu_micro_batch_of(pass)->first_token * model->shape->hidden;
}

static struct gpu_rows input_of(const struct pass *pass) {
    return gpu_rows_from(&pass->model->gpu->input, gpu_micro_batch_of(pass)->row);
}

static struct gpu_rows shared_of(const struct pass *pass) {
    return gpu_rows_from(&pass->model->gpu->input_shared, gpu_micro_batch_of(pass)->row);
}

/* The micro-batch's input = norm(x), in the format `kind`. Writes it too as the shared expert's
 * input, unless `shared` is NULL, and as plain floats, unless `plain` is NULL. */
static void gpu_layers_normalize(const struct pass *pass, const float *norm, enum input_kind kind,
                                 const enum input_kind *shared, float *plain) {
    struct gpu_rows input = input_of(pass), second = shared_of(pass);
    struct gpu_prepare arguments = {.x = gpu_layers_x_of(pass),
                                    .weight = norm,
                                    .plain = plain,
                                    .x_stride = pass->model->shape->hidden,
                                    .plain_stride = pass->model->shape->hidden,
                                    .n = pass->model->shape->hidden,
                                    .live = gpu_micro_batch_of(pass)->live,
                                    .rows = gpu_micro_batch_of(pass)->rows};
    if (shared) {
        arguments.second = second.data;
        arguments.second_scales = second.scales;
        arguments.second_format = gpu_row_format_of(&second, *shared);
    }
    gpu_layers_prepare_rows(pass->model, gpu_micro_batch_of(pass)->stream, &input, kind, arguments);
}

/* y = W x of the micro-batch's rows. */
static void gpu_layers_multiply_rows(const struct pass *pass, const struct packed_matrix *weights,
                                     const struct gpu_rows *x, enum input_kind kind, float *y,
                                     uint32_t stride) {
    const struct gpu_micro_batch *micro_batch = gpu_micro_batch_of(pass);
    gpu_layers_multiply(pass->model, micro_batch->stream, weights, x, kind,
                        gpu_layers_rows_of(pass, y, stride), stride, micro_batch->rows,
                        micro_batch->live);
}

/* to = silu(gate) * up of the micro-batch's rows, prepared. */
static void activate(const struct pass *pass, const struct gpu_rows *to, enum input_kind kind,
                     uint32_t n) {
    struct gpu_state *state = pass->model->gpu;
    struct gpu_activate arguments = {.gate =
                                         gpu_layers_rows_of(pass, state->gate, state->mlp_stride),
                                     .up = gpu_layers_rows_of(pass, state->up, state->mlp_stride),
                                     .to = to->data,
                                     .to_scales = to->scales,
                                     .format = gpu_row_format_of(to, kind),
                                     .stride = state->mlp_stride,
                                     .n = n,
                                     .live = gpu_micro_batch_of(pass)->live,
                                     .live_each = 1,
                                     .rows = gpu_micro_batch_of(pass)->rows};
    gpu_launch(state, gpu_micro_batch_of(pass)->stream, activate, arguments);
}

static bool gpu_layers_is_empty(const struct pass *pass) {
    return gpu_micro_batch_of(pass)->rows == 0;
}

/* Whether the stage has nothing to enqueue, or a launched segment contains its work. */
static bool gpu_layers_is_left_out(const struct pass *pass) {
    return gpu_layers_is_empty(pass) || !gpu_micro_batch_enter(pass);
}

/* ---- attention ---- */

static struct gpu_kv_layout kv_layout(const struct pass *pass) {
    const struct kv_pages *kv = &pass->model->kv;
    return (struct gpu_kv_layout){.page_bytes = kv->page_bytes,
                                  .slice_at = kv_format_slice_offset(&kv->format, pass->layer),
                                  .row_bytes = kv->row_bytes,
                                  .width = kv->width,
                                  .page_count = kv->page_count,
                                  .is_bf16 = kv->element == KV_ELEMENT_BF16};
}

/* Writes the KV rows of the micro-batch's tokens, from kv_a. */
static void gpu_layers_write_rows(const struct pass *pass) {
    const struct model *model = pass->model;
    struct gpu_state *state = model->gpu;
    struct gpu_micro_batch *micro_batch = gpu_micro_batch_of(pass);
    struct gpu_latent arguments = {.kv_a =
                                       gpu_layers_rows_of(pass, state->kv_a, state->kv_a_stride),
                                   .weight = compute_weights(pass)->attention.kv_a_norm,
                                   .angles = state->angles,
                                   .positions = micro_batch->batch.positions,
                                   .kv_index = micro_batch->batch.kv_index,
                                   .first_page = micro_batch->batch.first_page,
                                   .pages = micro_batch->batch.pages,
                                   .memory = model->kv.on_device,
                                   .live = micro_batch->live,
                                   .kv = kv_layout(pass),
                                   .stride = state->kv_a_stride,
                                   .rows = micro_batch->rows,
                                   .kv_rank = model->shape->kv_rank,
                                   .rope_dim = model->shape->rope_dim,
                                   .interleaved = model->shape->rope_interleaved,
                                   .epsilon = LATENT_EPSILON};
    gpu_launch(state, micro_batch->stream, latent, arguments);
}

void gpu_layers_attention_write_rows(const struct pass *pass) {
    struct gpu_state *state = pass->model->gpu;
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    enum input_kind kind = compute_kind(pass->model, &attention->kv_a);
    struct gpu_rows input = input_of(pass);
    if (gpu_layers_is_empty(pass)) return;
    gpu_layers_normalize(pass, attention->norm, kind, NULL, NULL);
    gpu_layers_multiply_rows(pass, &attention->kv_a, &input, kind, state->kv_a, state->kv_a_stride);
    gpu_layers_write_rows(pass);
}

/* state.q = q_b(rmsnorm(q_a x)), or q_proj x. */
static void project_queries(const struct pass *pass, enum input_kind kind) {
    const struct model *model = pass->model;
    struct gpu_state *state = model->gpu;
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    struct gpu_rows input = input_of(pass);
    if (!model->shape->q_rank) {
        gpu_layers_multiply_rows(pass, &attention->q, &input, kind, state->q, state->q_stride);
        pass_part(pass, PART_DOWN);
        return;
    }
    enum input_kind up_kind = compute_kind(model, &attention->q_b);
    gpu_layers_multiply_rows(pass, &attention->q_a, &input, kind, state->q_a, state->q_a_stride);
    pass_part(pass, PART_DOWN);
    struct gpu_prepare arguments = {.x = gpu_layers_rows_of(pass, state->q_a, state->q_a_stride),
                                    .weight = attention->q_a_norm,
                                    .epsilon = LATENT_EPSILON,
                                    .x_stride = state->q_a_stride,
                                    .n = model->shape->q_rank,
                                    .live = gpu_micro_batch_of(pass)->live,
                                    .rows = gpu_micro_batch_of(pass)->rows};
    gpu_layers_prepare_rows(model, gpu_micro_batch_of(pass)->stream, &input, up_kind, arguments);
    pass_part(pass, PART_LATENT);
    gpu_layers_multiply_rows(pass, &attention->q_b, &input, up_kind, state->q, state->q_stride);
    pass_part(pass, PART_QUERY);
}

static char *queries_of(const struct pass *pass) {
    const struct gpu_state *state = pass->model->gpu;
    return state->queries + (size_t)gpu_micro_batch_of(pass)->row * state->queries_pitch;
}

static void rotate_queries(const struct pass *pass) {
    const struct shape *shape = pass->model->shape;
    struct gpu_state *state = pass->model->gpu;
    const struct gpu_micro_batch *micro_batch = gpu_micro_batch_of(pass);
    struct gpu_queries arguments = {.q = gpu_layers_rows_of(pass, state->q, state->q_stride),
                                    .angles = state->angles,
                                    .positions = micro_batch->batch.positions,
                                    .to = queries_of(pass),
                                    .live = micro_batch->live,
                                    .stride = state->q_stride,
                                    .rows = micro_batch->rows,
                                    .heads = shape->heads,
                                    .nope_dim = shape->nope_dim,
                                    .rope_dim = shape->rope_dim,
                                    .interleaved = shape->rope_interleaved,
                                    .is_bf16 = pass->model->rounds_bf16,
                                    .to_pitch = state->queries_pitch};
    gpu_launch(state, micro_batch->stream, queries, arguments);
}

void gpu_layers_attention_begin(const struct pass *pass) {
    const struct model *model = pass->model;
    struct gpu_state *state = model->gpu;
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    const struct packed_matrix *down = model->shape->q_rank ? &attention->q_a : &attention->q;
    enum input_kind kv_kind = compute_kind(model, &attention->kv_a);
    enum input_kind q_kind = compute_kind(model, down);
    struct gpu_rows input = input_of(pass), other = shared_of(pass);
    if (gpu_layers_is_left_out(pass)) return;
    gpu_layers_normalize(pass, attention->norm, q_kind, kv_kind == q_kind ? NULL : &kv_kind, NULL);
    pass_part(pass, PART_ATTENTION_NORM);
    gpu_layers_multiply_rows(pass, &attention->kv_a, kv_kind == q_kind ? &input : &other, kv_kind,
                             state->kv_a, state->kv_a_stride);
    pass_part(pass, PART_DOWN);
    gpu_layers_write_rows(pass);
    device_record(state->device, gpu_micro_batch_of(pass)->written,
                  gpu_micro_batch_of(pass)->stream);
    pass_part(pass, PART_LATENT);
    project_queries(pass, q_kind);
    rotate_queries(pass);
    pass_part(pass, PART_ROPE);
}

/* kv_b for inputs that are not quantized. */
static const struct packed_matrix *plain_kv_b(const struct pass *pass) {
    const struct attention_weights *attention = &compute_weights(pass)->attention;
    return attention->kv_b_bf16.data ? &attention->kv_b_bf16 : &attention->kv_b;
}

static enum input_kind latents_kind(const struct pass *pass) {
    const struct model *model = pass->model;
    if (model->activations == ACTIVATIONS_FP8_F32) return INPUT_F32;
    return compute_kind(model, &compute_weights(pass)->attention.kv_b);
}

static void count_tiles(const struct batch *batch, struct gpu_prompt *prompt) {
    for (uint32_t i = 0; i < batch->prompt_runs; i++) {
        const struct run *run = &batch->runs[i];
        if (!run->token_count) continue;
        uint32_t keys = run->first_position + run->token_count + run->kv_shift;
        prompt->run_count++;
        prompt->query_tiles += (uint32_t)divide_up(run->token_count, GPU_PROMPT_TILE);
        prompt->key_tiles += (uint32_t)divide_up(keys, GPU_PROMPT_TILE);
    }
}

static void attend_prompts(const struct pass *pass) {
    const struct model *model = pass->model;
    struct gpu_state *state = model->gpu;
    const struct gpu_micro_batch *micro_batch = gpu_micro_batch_of(pass);
    enum input_kind kind = latents_kind(pass);
    const struct packed_matrix *kv_b =
        kind == INPUT_BF16 ? plain_kv_b(pass) : &compute_weights(pass)->attention.kv_b;
    uint32_t width = model->shape->heads * model->shape->value_dim;
    char *room = state->prompt_workspace
                     ? state->prompt_workspace + gpu_micro_batch_number(pass) * state->prompt_bytes
                     : NULL;
    struct gpu_prompt arguments = {.queries = queries_of(pass),
                                   .kv_b = kv_b->data,
                                   .kv_b_scales = kv_b->scales,
                                   .kv_index = micro_batch->batch.kv_index,
                                   .runs = micro_batch->batch.runs,
                                   .pages = micro_batch->batch.pages,
                                   .memory = model->kv.on_device,
                                   .attended = gpu_layers_rows_of(pass, state->attended, width),
                                   .workspace = room,
                                   .matrix = gpu_matrix_layout(kv_b),
                                   .kv = kv_layout(pass),
                                   .heads = gpu_state_heads_of(model),
                                   .latents = kind,
                                   .queries_pitch = state->queries_pitch,
                                   .rows = pass->batch->prompt_tokens,
                                   .workspace_rows = state->rows_max,
                                   .workspace_keys = state->prompt_keys};
    count_tiles(pass->batch, &arguments);
    if (!arguments.run_count) return;
    gpu_launch(state, micro_batch->stream, prompt, arguments);
    pass_part(pass, PART_CORE_PROMPT);
}

/* How many generated tokens fit the micro-batch's workspace. */
static uint32_t tile_tokens(const struct gpu_state *state, const struct gpu_heads *heads,
                            uint32_t keys_max) {
    if (!state->kernels->core_workspace) return GPU_ABSORB_TILE;
    size_t fit = state->core_floats / state->kernels->core_workspace(heads, 1, keys_max);
    check(fit);
    return fit < GPU_ABSORB_TILE ? (uint32_t)fit : GPU_ABSORB_TILE;
}

/* Generated tokens [first, first + count) of the micro-batch. */
static void gpu_layers_attend_tile(const struct pass *pass, uint32_t first, uint32_t count,
                                   uint32_t keys_max) {
    const struct model *model = pass->model;
    struct gpu_state *state = model->gpu;
    const struct gpu_micro_batch *micro_batch = gpu_micro_batch_of(pass);
    const struct packed_matrix *kv_b = plain_kv_b(pass);
    uint32_t width = model->shape->heads * model->shape->value_dim;
    char *absorbed = state->absorbed + (size_t)micro_batch->tile * state->absorbed_pitch;
    char *u = state->u + (size_t)micro_batch->tile * state->u_pitch;
    float *room = state->core_workspace
                      ? state->core_workspace + gpu_micro_batch_number(pass) * state->core_floats
                      : NULL;
    struct gpu_absorb in = {.queries = queries_of(pass) + (size_t)first * state->queries_pitch,
                            .kv_b = kv_b->data,
                            .kv_b_scales = kv_b->scales,
                            .to = absorbed,
                            .matrix = gpu_matrix_layout(kv_b),
                            .heads = gpu_state_heads_of(model),
                            .live = micro_batch->live,
                            .queries_pitch = state->queries_pitch,
                            .to_pitch = state->absorbed_pitch,
                            .rows = count,
                            .live_before = first};
    struct gpu_core arguments = {.absorbed = absorbed,
                                 .kv_index = micro_batch->batch.kv_index + first,
                                 .kv_first = micro_batch->batch.kv_first + first,
                                 .first_page = micro_batch->batch.first_page + first,
                                 .pages = micro_batch->batch.pages,
                                 .memory = model->kv.on_device,
                                 .to = u,
                                 .workspace = room,
                                 .kv = kv_layout(pass),
                                 .heads = gpu_state_heads_of(model),
                                 .absorbed_pitch = state->absorbed_pitch,
                                 .live = micro_batch->live,
                                 .to_pitch = state->u_pitch,
                                 .rows = count,
                                 .live_before = first,
                                 .keys_max = keys_max};
    struct gpu_release out = {.u = u,
                              .kv_b = kv_b->data,
                              .kv_b_scales = kv_b->scales,
                              .attended = gpu_layers_rows_of(pass, state->attended, width) +
                                          (size_t)first * width,
                              .matrix = gpu_matrix_layout(kv_b),
                              .heads = gpu_state_heads_of(model),
                              .live = micro_batch->live,
                              .u_pitch = state->u_pitch,
                              .rows = count,
                              .live_before = first};
    gpu_launch(state, micro_batch->stream, absorb, in);
    pass_part(pass, PART_ABSORB_QUERY);
    gpu_launch(state, micro_batch->stream, core, arguments);
    pass_part(pass, PART_CORE);
    gpu_launch(state, micro_batch->stream, release, out);
    pass_part(pass, PART_ABSORB_VALUE);
}

static void attend_generated(const struct pass *pass) {
    const struct gpu_micro_batch *micro_batch = gpu_micro_batch_of(pass);
    uint32_t tokens = micro_batch->rows, first = pass->batch->prompt_tokens;
    struct gpu_heads heads = gpu_state_heads_of(pass->model);
    uint32_t keys_max =
        micro_batch->keys_max ? micro_batch->keys_max : gpu_state_most_keys(pass->batch);
    if (first == tokens) return;
    uint32_t tile = tile_tokens(pass->model->gpu, &heads, keys_max);
    for (; first < tokens; first += tile)
        gpu_layers_attend_tile(pass, first, tokens - first < tile ? tokens - first : tile,
                               keys_max);
}

/* Waits for the KV rows of earlier micro-batches, to which prompt tokens may attend. */
void gpu_layers_attention_finish(const struct pass *pass) {
    struct model *model = pass->model;
    struct gpu_state *state = model->gpu;
    const struct gpu_micro_batch *micro_batch = gpu_micro_batch_of(pass);
    const struct packed_matrix *o = &compute_weights(pass)->attention.o;
    uint32_t width = model->shape->heads * model->shape->value_dim;
    struct gpu_rows input = input_of(pass);
    if (gpu_layers_is_left_out(pass)) return;
    for (uint32_t i = 0; model->batch.prompt_tokens && i < gpu_micro_batch_number(pass); i++)
        if (state->micro_batches[i].rows)
            device_stream_wait_event(state->device, micro_batch->stream,
                                     state->micro_batches[i].written);
    attend_prompts(pass);
    attend_generated(pass);
    struct gpu_prepare arguments = {.x = gpu_layers_rows_of(pass, state->attended, width),
                                    .x_stride = width,
                                    .n = width,
                                    .live = micro_batch->live,
                                    .rows = micro_batch->rows};
    gpu_layers_prepare_rows(model, micro_batch->stream, &input, compute_kind(model, o), arguments);
    pass_part(pass, PART_OUTPUT_INPUT);
    gpu_layers_multiply_rows(pass, o, &input, compute_kind(model, o), state->y,
                             state->hidden_stride);
    pass_part(pass, PART_OUTPUT);
}

/* ---- dense layers ---- */

/* y = down(silu(gate x) * up x); x is prepared for gate. A dense layer is one part of a trace. */
static void run_mlp(const struct pass *pass, const struct mlp_weights *mlp,
                    const struct gpu_rows *input, float *y) {
    bool shared = pass_is_moe(pass);
    const struct model *model = pass->model;
    struct gpu_state *state = model->gpu;
    enum input_kind kind = compute_kind(model, &mlp->gate);
    gpu_layers_multiply_rows(pass, &mlp->gate, input, kind, state->gate, state->mlp_stride);
    gpu_layers_multiply_rows(pass, &mlp->up, input, kind, state->up, state->mlp_stride);
    if (shared) pass_part(pass, PART_SHARED_UP);
    activate(pass, input, compute_kind(model, &mlp->down), mlp->gate.rows);
    if (shared) pass_part(pass, PART_SHARED_SILU);
    gpu_layers_multiply_rows(pass, &mlp->down, input, compute_kind(model, &mlp->down), y,
                             state->hidden_stride);
    pass_part(pass, shared ? PART_SHARED_DOWN : PART_DENSE);
}

void gpu_layers_mlp_run(const struct pass *pass) {
    const struct mlp_weights *dense = &compute_weights(pass)->dense;
    struct gpu_rows input = input_of(pass);
    if (gpu_layers_is_left_out(pass)) return;
    gpu_layers_normalize(pass, compute_weights(pass)->mlp_norm,
                         compute_kind(pass->model, &dense->gate), NULL, NULL);
    run_mlp(pass, dense, &input, pass->model->gpu->y);
}

/* ---- layers with experts ---- */

enum input_kind gpu_layers_routed_kind(const struct pass *pass) {
    return compute_kind(pass->model, &pass->model->weights.expert.matrices.gate);
}

static bool gpu_layers_has_shared(const struct pass *pass) {
    return pass->model->shape->shared_experts != 0;
}

/* The micro-batch's rows of an array with per_token words for each row. */
static uint32_t *pairs_of(const struct pass *pass, void *words) {
    return (uint32_t *)words +
           (size_t)gpu_micro_batch_of(pass)->row * pass->model->shape->experts_per_token;
}

static uint32_t pair_count(const struct pass *pass) {
    return gpu_micro_batch_of(pass)->rows * pass->model->shape->experts_per_token;
}

void gpu_layers_experts_route(const struct pass *pass) {
    const struct model *model = pass->model;
    const struct shape *shape = model->shape;
    struct gpu_state *state = model->gpu;
    const struct layer_weights *weights = compute_weights(pass);
    enum input_kind shared = compute_kind(model, &weights->shared.gate);
    float *normed = gpu_layers_rows_of(pass, state->normed, shape->hidden);
    if (gpu_layers_is_left_out(pass)) return;
    gpu_layers_normalize(pass, weights->mlp_norm, gpu_layers_routed_kind(pass),
                         gpu_layers_has_shared(pass) ? &shared : NULL, normed);
    pass_part(pass, PART_GATE_NORM);
    struct gpu_rows plain = {.data = (char *)normed, .pitch = shape->hidden * sizeof(float)};
    gpu_layers_multiply_rows(pass, &weights->router, &plain, INPUT_F32, state->router_logits,
                             state->experts_stride);
    pass_part(pass, PART_GATE);
    struct gpu_route arguments = {
        .logits = gpu_layers_rows_of(pass, state->router_logits, state->experts_stride),
        .bias = weights->router_bias,
        .experts = pairs_of(pass, state->experts),
        .weights = (float *)(void *)pairs_of(pass, state->expert_weights),
        .live = gpu_micro_batch_of(pass)->live,
        .stride = state->experts_stride,
        .rows = gpu_micro_batch_of(pass)->rows,
        .experts_all = shape->experts,
        .per_token = shape->experts_per_token,
        .groups = shape->groups,
        .groups_kept = shape->groups_kept,
        .scoring = shape->scoring,
        .method = shape->method,
        .normalizes = shape->normalize_weights,
        .scaling = shape->routed_scaling};
    gpu_launch(state, gpu_micro_batch_of(pass)->stream, route, arguments);
    pass_part(pass, PART_TOP_K);
}

static struct gpu_group *groups_of(const struct pass *pass) {
    const struct model *model = pass->model;
    return model->gpu->groups + gpu_micro_batch_number(pass) * model->shape->experts;
}

/* With one rank, an expert's slot has its number. */
void gpu_layers_experts_dispatch(const struct pass *pass) {
    const struct model *model = pass->model;
    struct gpu_state *state = model->gpu;
    struct device_stream *stream = gpu_micro_batch_of(pass)->stream;
    uint32_t per_token = model->shape->experts_per_token;
    if (gpu_layers_is_empty(pass)) return;
    struct gpu_sort sorted = {.experts = pairs_of(pass, state->experts),
                              .pair_row = pairs_of(pass, state->pair_row),
                              .row_token = pairs_of(pass, state->row_token),
                              .groups = groups_of(pass),
                              .slot_tokens =
                                  state->slot_tokens +
                                  gpu_micro_batch_number(pass) * model->weights.slot_count +
                                  compute_weights(pass)->first_slot,
                              .live = gpu_micro_batch_of(pass)->live,
                              .tokens = gpu_micro_batch_of(pass)->rows,
                              .per_token = per_token,
                              .slots = model->shape->experts};
    struct gpu_rows from = input_of(pass);
    struct gpu_rows to =
        gpu_rows_from(&state->expert_input, gpu_micro_batch_of(pass)->row * per_token);
    struct gpu_gather gathered = {.from = from.data,
                                  .from_scales = from.scales,
                                  .row_token = sorted.row_token,
                                  .to = to.data,
                                  .to_scales = to.scales,
                                  .from_format =
                                      gpu_row_format_of(&from, gpu_layers_routed_kind(pass)),
                                  .to_format = gpu_row_format_of(&to, gpu_layers_routed_kind(pass)),
                                  .n = model->shape->hidden,
                                  .live = gpu_micro_batch_of(pass)->live,
                                  .live_each = per_token,
                                  .rows = pair_count(pass),
                                  .from_scale_step = 1,
                                  .to_scale_step = 1};
    gpu_launch(state, stream, sort, sorted);
    gpu_launch(state, stream, gather, gathered);
    pass_part(pass, PART_SEND);
}

void gpu_layers_experts_run_shared(const struct pass *pass) {
    struct gpu_rows input = shared_of(pass);
    if (!gpu_layers_has_shared(pass) || gpu_layers_is_left_out(pass)) return;
    run_mlp(pass, &compute_weights(pass)->shared, &input, pass->model->gpu->shared_y);
}

/* y = W x of pairs, each with its expert's W. */
static void multiply_pairs(const struct pass *pass, const struct gpu_pairs *pairs,
                           const struct packed_matrix *offsets, const struct gpu_rows *x,
                           enum input_kind kind, float *y, uint32_t stride) {
    const struct gpu_rows from = gpu_rows_from(x, pairs->base_row);
    struct gpu_product arguments = {
        .x = from.data,
        .x_scales = from.scales,
        .weights = pairs->slots + (uintptr_t)offsets->data,
        .weight_scales =
            offsets->type == WEIGHT_FP8
                ? (const float *)(const void *)(pairs->slots + (uintptr_t)offsets->scales)
                : NULL,
        .y = y + (size_t)pairs->base_row * stride,
        .groups = pairs->groups,
        .format = gpu_row_format_of(x, kind),
        .matrix = gpu_matrix_layout(offsets),
        .slot_bytes = pass->model->weights.expert.slot_bytes,
        .y_stride = stride,
        .rows = pairs->first + pairs->count,
        .group_count = pairs->group_count,
        .slot_count = pairs->slot_count};
    gpu_launch(pass->model->gpu, gpu_micro_batch_of(pass)->stream, product, arguments);
}

void gpu_layers_experts_multiply(const struct pass *pass, const struct gpu_pairs *pairs) {
    const struct model *model = pass->model;
    struct gpu_state *state = model->gpu;
    const struct mlp_weights *expert = &model->weights.expert.matrices;
    enum input_kind kind = gpu_layers_routed_kind(pass);
    enum input_kind intermediate_kind = compute_kind(model, &expert->down);
    const struct gpu_rows *intermediate = &state->expert_intermediate;
    size_t row = (size_t)pairs->base_row + pairs->first;
    multiply_pairs(pass, pairs, &expert->gate, &state->expert_input, kind, state->expert_gate,
                   state->expert_stride);
    multiply_pairs(pass, pairs, &expert->up, &state->expert_input, kind, state->expert_up,
                   state->expert_stride);
    pass_part(pass, PART_EXPERT_UP);
    struct gpu_activate silu = {.gate = state->expert_gate + row * state->expert_stride,
                                .up = state->expert_up + row * state->expert_stride,
                                .to = intermediate->data + row * intermediate->pitch,
                                .to_scales = intermediate->scales + row,
                                .format = gpu_row_format_of(intermediate, intermediate_kind),
                                .stride = state->expert_stride,
                                .n = model->shape->expert_width,
                                .live = pairs->live,
                                .live_each = pairs->live_each,
                                .rows = pairs->count};
    gpu_launch(state, gpu_micro_batch_of(pass)->stream, activate, silu);
    pass_part(pass, PART_EXPERT_SILU);
    multiply_pairs(pass, pairs, &expert->down, intermediate, intermediate_kind, state->expert_y,
                   state->hidden_stride);
    pass_part(pass, PART_EXPERT_DOWN);
}

/* With one rank, a layer's slots are contiguous. */
void gpu_layers_experts_run_routed(const struct pass *pass) {
    const struct model *model = pass->model;
    if (gpu_layers_is_empty(pass)) return;
    const struct gpu_pairs pairs = {
        .base_row = gpu_micro_batch_of(pass)->row * model->shape->experts_per_token,
        .count = pair_count(pass),
        .groups = groups_of(pass),
        .group_count = model->shape->experts,
        .live = gpu_micro_batch_of(pass)->live,
        .live_each = model->shape->experts_per_token,
        .slots = model->weights.slots[compute_weights(pass)->first_slot],
        .slot_count = model->shape->experts};
    gpu_layers_experts_multiply(pass, &pairs);
}

void gpu_layers_experts_combine(const struct pass *pass) {
    const struct model *model = pass->model;
    struct gpu_state *state = model->gpu;
    if (gpu_layers_is_empty(pass)) return;
    uint32_t per_token = model->shape->experts_per_token;
    size_t row = (size_t)gpu_micro_batch_of(pass)->row * per_token;
    struct gpu_combine sums = {.results = state->expert_y + row * state->hidden_stride,
                               .pair_row = pairs_of(pass, state->pair_row),
                               .experts = pairs_of(pass, state->experts),
                               .weights = (float *)(void *)pairs_of(pass, state->expert_weights),
                               .y = gpu_layers_rows_of(pass, state->y, state->hidden_stride),
                               .pitch = state->hidden_stride * sizeof(float),
                               .y_stride = state->hidden_stride,
                               .n = model->shape->hidden,
                               .live = gpu_micro_batch_of(pass)->live,
                               .tokens = gpu_micro_batch_of(pass)->rows,
                               .per_token = per_token,
                               .group_experts = model->group_experts,
                               .rounds_bf16 = model->rounds_bf16};
    gpu_launch(state, gpu_micro_batch_of(pass)->stream, combine, sums);
    pass_part(pass, PART_COMBINE);
}

void gpu_layers_experts_add_shared(const struct pass *pass) {
    struct gpu_state *state = pass->model->gpu;
    if (gpu_layers_is_empty(pass) || !gpu_layers_has_shared(pass) || !gpu_micro_batch_enter(pass))
        return;
    struct gpu_add shared = {.y = gpu_layers_rows_of(pass, state->y, state->hidden_stride),
                             .x = gpu_layers_rows_of(pass, state->shared_y, state->hidden_stride),
                             .y_stride = state->hidden_stride,
                             .x_stride = state->hidden_stride,
                             .n = pass->model->shape->hidden,
                             .live = gpu_micro_batch_of(pass)->live,
                             .rows = gpu_micro_batch_of(pass)->rows};
    gpu_launch(state, gpu_micro_batch_of(pass)->stream, add, shared);
    pass_part(pass, PART_SHARED_ADD);
}

void gpu_layers_experts_chosen(const struct pass *pass, uint32_t token, uint32_t *experts_out) {
    struct gpu_state *state = pass->model->gpu;
    struct device_stream *stream = gpu_micro_batch_of(pass)->stream;
    uint32_t per_token = pass->model->shape->experts_per_token;
    size_t bytes = per_token * sizeof *experts_out;
    struct error error;
    device_copy(state->device, stream, state->words_host,
                pairs_of(pass, state->experts) + (size_t)token * per_token, bytes, DEVICE_TO_HOST);
    gpu_state_note(state, device_synchronize_stream(state->device, stream, &error), &error);
    memcpy(experts_out, state->words_host, bytes);
}
