/* SPDX-License-Identifier: Apache-2.0
 * compute.h's functions for a device: the work before, between and after the layers. Work outside
 * micro-batches runs on the first micro-batch's stream. At the begin of a step the other streams
 * wait for it, and after the layers it waits for them.
 */
#include "compute/gpu/compute_gpu.h"

#include "base/check.h"
#include "compute/gpu/gpu_exchange.h"
#include "compute/gpu/gpu_graphs.h"
#include "compute/gpu/gpu_layers.h"
#include "compute/model/model.h"

#include <string.h>

static struct device_stream *main_stream(const struct model *model) {
    return model->gpu->micro_batches[0].stream;
}

static enum status compute_gpu_open_state(struct model *model, struct error *error) {
    enum status status = gpu_state_open(model, error);
    if (status != STATUS_OK) return status;
    model->scratch = (struct scratch *)(void *)&model->gpu->mtp;
    status = gpu_graphs_open(model, error);
    if (status != STATUS_OK || !model->placement.ranks) return status;
    return gpu_exchange_open(model, error);
}

static void close_state(struct model *model) {
    gpu_exchange_close(model);
    gpu_state_finish(model);
    gpu_graphs_close(model);
    gpu_state_close(model);
}

/* A micro-batch's rows follow those of the micro-batches before it, at a multiple of 4. */
static struct scratch *compute_gpu_take_micro_batch(struct model *model, uint32_t index,
                                                    uint32_t first_token) {
    struct gpu_micro_batch *micro_batch = &model->gpu->micro_batches[index];
    micro_batch->first_token = first_token;
    micro_batch->row = (uint32_t)round_up(first_token, 4) + 4 * index;
    return (struct scratch *)(void *)micro_batch;
}

/* The number of tokens of all micro-batches; in a graph its upper bound. */
static uint32_t rows_of_step(const struct model *model) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < model->micro_batch_count; i++) {
        const struct gpu_micro_batch *micro_batch = &model->gpu->micro_batches[i];
        if (micro_batch->rows) rows = micro_batch->first_token + micro_batch->rows;
    }
    return rows;
}

/* x = the embeddings of the step's tokens. */
static void embed(struct model *model, const struct gpu_batch *batch) {
    const struct packed_matrix *embedding = &model->weights.embedding_rows;
    struct gpu_embed arguments = {.x = model->gpu->x,
                                  .embedding = embedding->data,
                                  .embedding_scales = embedding->scales,
                                  .ids = batch->ids,
                                  .live = model->gpu->micro_batches[0].live ? batch->live : NULL,
                                  .format = gpu_matrix_layout(embedding),
                                  .x_stride = model->shape->hidden,
                                  .rows = rows_of_step(model)};
    if (arguments.rows) gpu_launch(model->gpu, main_stream(model), embed, arguments);
}

/* The work of earlier steps is done, so the arrays always use the same staging buffer. */
static bool begin(struct model *model, uint32_t step_shape) {
    struct gpu_state *state = model->gpu;
    uint32_t run = 0;
    state->next_staging = 0;
    gpu_exchange_connect(model);
    struct gpu_batch batch = gpu_state_send(model, &model->batch, NULL);
    for (uint32_t i = 0; i < model->micro_batch_count; i++) {
        const struct micro_batch *micro_batch = &model->micro_batches[i];
        state->micro_batches[i].batch = gpu_state_from(&batch, micro_batch->first, run);
        for (uint32_t k = 0; k < micro_batch->batch.prompt_runs; k++)
            run += micro_batch->batch.runs[k].token_count > 0;
    }
    if (gpu_graphs_begin(model, step_shape)) return true;
    state->forked = model->micro_batch_count > 1;
    if (state->forked || gpu_graphs_enter(model, 0)) embed(model, &batch);
    if (!state->forked) return false;
    device_record(state->device, state->begun, main_stream(model));
    for (uint32_t i = 1; i < model->micro_batch_count; i++)
        device_stream_wait_event(state->device, state->micro_batches[i].stream, state->begun);
    return false;
}

/* Joins the streams: later work on the first one waits for all micro-batches. */
static void compute_gpu_join(struct model *model) {
    struct gpu_state *state = model->gpu;
    gpu_graphs_stop(model);
    for (uint32_t i = 1; state->forked && i < model->micro_batch_count; i++) {
        device_record(state->device, state->micro_batches[i].done, state->micro_batches[i].stream);
        device_stream_wait_event(state->device, main_stream(model), state->micro_batches[i].done);
    }
    state->forked = false;
    gpu_graphs_end(model);
}

/* ---- the follower ---- */

/* Reports written KV rows to the follower; with `wait` waits for all of them. */
static void report_passed(struct model *model, bool wait) {
    struct gpu_state *state = model->gpu;
    struct error error;
    while (state->reported_count) {
        const struct gpu_reported *reported = &state->reported[state->reported_first];
        struct device_event *event = state->reported_events[state->reported_first];
        if (wait)
            gpu_state_note(state, device_synchronize_event(state->device, event, &error), &error);
        if (!wait && !device_event_done(state->device, event)) return;
        state->reported_first = (state->reported_first + 1) % state->reported_max;
        state->reported_count--;
        if (state->status == STATUS_OK)
            model->follower.written(model->follower.context, reported->step, reported->slices);
    }
}

static void compute_gpu_report(struct model *model, uint64_t step, uint32_t slices) {
    struct gpu_state *state = model->gpu;
    check(state->reported_count < state->reported_max); /* each slice is reported once in a step */
    uint32_t at = (state->reported_first + state->reported_count++) % state->reported_max;
    state->reported[at] = (struct gpu_reported){step, slices};
    if (state->graphs->is_step)
        return; /* events recorded in a graph cannot be waited for outside: `end` reports */
    bool behind_layers = slices == model->kv.format.slice_count;
    if (behind_layers) device_record(state->device, state->begun, main_stream(model));
    if (behind_layers) device_stream_wait_event(state->device, state->report_stream, state->begun);
    for (uint32_t i = 0; i < model->micro_batch_count;
         i++) /* the event of an empty micro-batch may belong to a graph */
        if (state->micro_batches[i].rows)
            device_stream_wait_event(state->device, state->report_stream,
                                     state->micro_batches[i].written);
    device_record(state->device, state->reported_events[at], state->report_stream);
    report_passed(model, false);
}

static void compute_gpu_count_slots(struct model *model) {
    const struct gpu_state *state = model->gpu;
    uint32_t slots = model->weights.slot_count;
    for (uint32_t i = 0; i < model->micro_batch_count * slots; i++)
        model->slot_tokens[i % slots] += state->slot_tokens_host[i];
}

static enum status end(struct model *model, struct error *error) {
    struct gpu_state *state = model->gpu;
    struct device_stream *stream = main_stream(model);
    size_t bytes = model->micro_batch_count * model->weights.slot_count * sizeof(uint32_t);
    struct error why;
    compute_gpu_join(model);
    device_copy(state->device, stream, state->slot_tokens_host, state->slot_tokens, bytes,
                DEVICE_TO_HOST);
    device_fill(state->device, stream, state->slot_tokens, 0, bytes);
    gpu_state_note(state, device_synchronize_stream(state->device, stream, &why), &why);
    report_passed(model, true);
    gpu_state_report_marks(model);
    if (state->status != STATUS_OK) return error_set(error, state->status, "%s", state->error.text);
    compute_gpu_count_slots(model);
    return STATUS_OK;
}

static void add(const struct pass *pass) {
    struct gpu_state *state = pass->model->gpu;
    const struct gpu_micro_batch *micro_batch = gpu_micro_batch_of(pass);
    uint32_t hidden = pass->model->shape->hidden;
    struct gpu_add arguments = {.y = state->x + (size_t)micro_batch->first_token * hidden,
                                .x = state->y + (size_t)micro_batch->row * state->hidden_stride,
                                .y_stride = hidden,
                                .x_stride = state->hidden_stride,
                                .n = hidden,
                                .live = micro_batch->live,
                                .rows = micro_batch->rows};
    if (arguments.rows && gpu_micro_batch_enter(pass))
        gpu_launch(state, micro_batch->stream, add, arguments);
}

/* ---- outputs ---- */

/* to = norm(rows of x). */
static void compute_gpu_normalize(const struct model *model, const float *x, const float *norm,
                                  float *to, uint32_t rows) {
    uint32_t hidden = model->shape->hidden;
    struct gpu_prepare arguments = {.x = x,
                                    .weight = norm,
                                    .plain = to,
                                    .x_stride = hidden,
                                    .plain_stride = hidden,
                                    .n = hidden,
                                    .rows = rows,
                                    .epsilon = model->shape->rms_epsilon};
    if (rows) gpu_launch(model->gpu, main_stream(model), prepare, arguments);
}

static const float *compute_gpu_x_at(const struct model *model, uint32_t token) {
    return model->gpu->x + (size_t)token * model->shape->hidden;
}

/* Enqueues the noted gather. */
static void gather_noted(struct model *model) {
    struct gpu_outputs *noted = &model->gpu->outputs;
    compute_gpu_normalize(model, compute_gpu_x_at(model, noted->first), model->weights.final_norm,
                          model->gpu->gathered + (size_t)noted->row * model->shape->hidden,
                          noted->count);
    *noted = (struct gpu_outputs){0};
}

/* Notes outputs to gather. Consecutive rows, as those of generated tokens, are gathered together.
 */
static void compute_gpu_gather_outputs(struct model *model, uint32_t first, uint32_t count,
                                       uint32_t row) {
    struct gpu_outputs *noted = &model->gpu->outputs;
    compute_gpu_join(model);
    check(row + count <= model->gpu->outputs_max);
    if (noted->count && count &&
        (first != noted->first + noted->count || row != noted->row + noted->count))
        gather_noted(model);
    if (!noted->count) *noted = (struct gpu_outputs){first, 0, row};
    noted->count += count;
}

/* Computes logits of at most GPU_LOGITS_TILE rows, which are normalized already, on the device. */
static void compute_gpu_run_head(const struct model *model, const float *rows, uint32_t count) {
    struct gpu_state *state = model->gpu;
    const struct packed_matrix *head = &model->weights.head;
    enum input_kind kind = compute_kind(model, head);
    struct gpu_prepare arguments = {
        .x = rows, .x_stride = model->shape->hidden, .n = model->shape->hidden, .rows = count};
    gpu_layers_prepare_rows(model, main_stream(model), &state->input, kind, arguments);
    gpu_layers_multiply(model, main_stream(model), head, &state->input, kind, state->logits,
                        state->vocab_stride, count, NULL);
}

/* Copies the tile's logits to logits_host: [count][vocab]. */
static void fetch_logits(const struct model *model, uint32_t count) {
    struct gpu_state *state = model->gpu;
    size_t row_bytes = model->shape->vocab * sizeof(float);
    struct error error;
    struct device_copy copy = {.to = state->logits_host,
                               .from = state->logits,
                               .to_pitch = row_bytes,
                               .from_pitch = state->vocab_stride * sizeof(float),
                               .row_bytes = row_bytes,
                               .row_count = count,
                               .direction = DEVICE_TO_HOST};
    device_copy_rows(state->device, main_stream(model), &copy);
    gpu_state_note(state, device_synchronize_stream(state->device, main_stream(model), &error),
                   &error);
}

static uint32_t compute_gpu_tile_rows(uint32_t left) {
    return left < GPU_LOGITS_TILE ? left : GPU_LOGITS_TILE;
}

static void compute_gpu_write_logits(struct model *model, uint32_t count, float *logits) {
    const struct gpu_state *state = model->gpu;
    size_t vocab = model->shape->vocab;
    gather_noted(model);
    for (uint32_t first = 0; first < count; first += GPU_LOGITS_TILE) {
        uint32_t rows = compute_gpu_tile_rows(count - first);
        compute_gpu_run_head(model, state->gathered + (size_t)first * model->shape->hidden, rows);
        fetch_logits(model, rows);
        memcpy(logits + first * vocab, state->logits_host, rows * vocab * sizeof *logits);
    }
}

static void compute_gpu_show_logits(struct model *model, uint32_t first, uint32_t count,
                                    compute_logits_viewer *view, void *context) {
    const struct gpu_state *state = model->gpu;
    for (uint32_t at = 0; at < count; at += GPU_LOGITS_TILE) {
        uint32_t rows = compute_gpu_tile_rows(count - at);
        compute_gpu_gather_outputs(model, first + at, rows, 0);
        gather_noted(model);
        compute_gpu_run_head(model, state->gathered, rows);
        fetch_logits(model, rows);
        for (uint32_t i = 0; i < rows; i++)
            view(context, at + i, state->logits_host + (size_t)i * model->shape->vocab);
    }
}

/* Draws a token for each row, which is normalized already; rules NULL: the largest logit. */
static void compute_gpu_draw_tokens(const struct model *model, const float *rows, uint32_t count,
                                    const struct draw_rule *rules, uint32_t *tokens_out) {
    struct gpu_state *state = model->gpu;
    struct device_stream *stream = main_stream(model);
    struct error error;
    if (rules) {
        memcpy(state->rules_host, rules, count * sizeof *rules);
        device_copy(state->device, stream, state->rules, state->rules_host, count * sizeof *rules,
                    DEVICE_FROM_HOST);
    }
    for (uint32_t first = 0; first < count; first += GPU_LOGITS_TILE) {
        uint32_t some = compute_gpu_tile_rows(count - first);
        compute_gpu_run_head(model, rows + (size_t)first * model->shape->hidden, some);
        struct gpu_draw arguments = {.logits = state->logits,
                                     .rules = rules ? state->rules + first : NULL,
                                     .to = state->drawn + first,
                                     .stride = state->vocab_stride,
                                     .n = model->shape->vocab,
                                     .rows = some};
        gpu_launch(state, stream, draw, arguments);
    }
    device_copy(state->device, stream, state->words_host, state->drawn, count * sizeof *tokens_out,
                DEVICE_TO_HOST);
    gpu_state_note(state, device_synchronize_stream(state->device, stream, &error), &error);
    memcpy(tokens_out, state->words_host, count * sizeof *tokens_out);
}

static void draw(struct model *model, uint32_t first, uint32_t count, const struct draw_rule *rules,
                 uint32_t *tokens_out) {
    gather_noted(model);
    compute_gpu_draw_tokens(model, model->gpu->gathered + (size_t)first * model->shape->hidden,
                            count, rules, tokens_out);
}

static uint32_t compute_gpu_find_greedy(struct model *model, uint32_t token) {
    uint32_t likeliest;
    compute_gpu_draw_tokens(model, model->gpu->hidden + (size_t)token * model->shape->hidden, 1,
                            NULL, &likeliest);
    return likeliest;
}

/* ---- MTP ---- */

static void compute_gpu_keep_outputs(struct model *model) {
    compute_gpu_join(model);
    compute_gpu_normalize(model, model->gpu->x, model->weights.final_norm, model->gpu->hidden,
                          model->batch.token_count);
}

static void compute_gpu_keep_slot(struct model *model, uint32_t slot, uint32_t first,
                                  uint32_t count) {
    struct gpu_state *state = model->gpu;
    size_t hidden = model->shape->hidden;
    device_copy(state->device, main_stream(model),
                state->kept + (size_t)slot * (1 + LIMIT_DRAFTS) * hidden,
                state->hidden + first * hidden, count * hidden * sizeof(float), DEVICE_WITHIN);
}

static void compute_gpu_project_mtp(struct model *model) {
    struct gpu_state *state = model->gpu;
    const struct mtp_weights *mtp = model->weights.mtp;
    const struct packed_matrix *embedding = &model->weights.embedding_rows;
    uint32_t rows = model->mtp_rows.token_count + model->mtp_batch.token_count;
    uint32_t hidden = model->shape->hidden;
    enum input_kind kind = compute_kind(model, &mtp->projection);
    state->mtp_batch = gpu_state_send(model, &model->mtp_rows, &model->mtp_batch);
    if (!rows) return;
    struct gpu_mtp_pair pairs = {.pair = state->mtp_pair,
                                 .embedding = embedding->data,
                                 .embedding_scales = embedding->scales,
                                 .embedding_norm = mtp->embedding_norm,
                                 .hidden_norm = mtp->hidden_norm,
                                 .hidden = state->hidden,
                                 .kept = state->kept,
                                 .ids = state->mtp_batch.ids,
                                 .source = state->mtp_batch.source,
                                 .format = gpu_matrix_layout(embedding),
                                 .n = hidden,
                                 .rows = rows,
                                 .epsilon = model->shape->rms_epsilon};
    gpu_launch(state, main_stream(model), pair, pairs);
    struct gpu_prepare arguments = {
        .x = state->mtp_pair, .x_stride = 2 * hidden, .n = 2 * hidden, .rows = rows};
    gpu_layers_prepare_rows(model, main_stream(model), &state->input, kind, arguments);
    gpu_layers_multiply(model, main_stream(model), &mtp->projection, &state->input, kind,
                        state->mtp_u, state->hidden_stride, rows, NULL);
}

static void compute_gpu_begin_mtp(const struct pass *pass, uint32_t first) {
    const struct model *model = pass->model;
    struct gpu_state *state = model->gpu;
    struct device_copy copy = {.to = state->x,
                               .from = state->mtp_u + (size_t)first * state->hidden_stride,
                               .to_pitch = model->shape->hidden * sizeof(float),
                               .from_pitch = state->hidden_stride * sizeof(float),
                               .row_bytes = model->shape->hidden * sizeof(float),
                               .row_count = pass->batch->token_count,
                               .direction = DEVICE_WITHIN};
    state->mtp.batch = gpu_state_from(&state->mtp_batch, first, 0);
    state->mtp.rows = pass->batch->token_count;
    device_copy_rows(state->device, main_stream(model), &copy);
}

static void compute_gpu_finish_mtp(const struct pass *pass, uint32_t *argmax_out) {
    const struct model *model = pass->model;
    compute_gpu_normalize(model, model->gpu->x, model->weights.mtp->head_norm, model->gpu->gathered,
                          pass->batch->token_count);
    compute_gpu_draw_tokens(model, model->gpu->gathered, pass->batch->token_count, NULL,
                            argmax_out);
}

static void compute_gpu_clear_row(const struct model *model, struct page_id page, uint32_t slice,
                                  uint32_t row) {
    const struct kv_pages *kv = &model->kv;
    for (uint32_t group = 0; group < kv->format.group_count; group++) {
        char *host = kv_pages_row(kv, page.index, slice, group, row);
        device_fill(model->device, main_stream(model), kv->on_device + (host - kv->memory), 0,
                    kv_group_row_bytes(&kv->format.groups[group]));
    }
}

/* ---- stages of a layer with experts: for one rank or several ---- */

static void compute_gpu_dispatch(const struct pass *pass) {
    if (exchange_moves_rows(pass->exchange))
        gpu_exchange_dispatch(pass);
    else
        gpu_layers_experts_dispatch(pass);
}

static void compute_gpu_run_routed(const struct pass *pass) {
    if (exchange_moves_rows(pass->exchange))
        gpu_exchange_run_routed(pass);
    else
        gpu_layers_experts_run_routed(pass);
}

static void compute_gpu_finish_experts(const struct pass *pass) {
    if (exchange_moves_rows(pass->exchange))
        gpu_exchange_finish(pass);
    else
        gpu_layers_experts_combine(pass);
    gpu_layers_experts_add_shared(pass);
}

static const char *compute_gpu_name_numerics(const struct model *model) {
    return model->device_kernels->numerics;
}

const struct compute compute_on_gpu = {
    .numerics = compute_gpu_name_numerics,
    .open = compute_gpu_open_state,
    .close = close_state,
    .micro_batch = compute_gpu_take_micro_batch,
    .begin = begin,
    .report = compute_gpu_report,
    .end = end,
    .mark = gpu_state_mark,
    .add = add,
    .attention_begin = gpu_layers_attention_begin,
    .attention_finish = gpu_layers_attention_finish,
    .attention_write_rows = gpu_layers_attention_write_rows,
    .mlp_run = gpu_layers_mlp_run,
    .experts_route = gpu_layers_experts_route,
    .experts_dispatch = compute_gpu_dispatch,
    .experts_run_shared = gpu_layers_experts_run_shared,
    .experts_run_routed = compute_gpu_run_routed,
    .experts_finish = compute_gpu_finish_experts,
    .experts_sum = gpu_exchange_sum,
    .experts_chosen = gpu_layers_experts_chosen,
    .outputs = compute_gpu_gather_outputs,
    .logits = compute_gpu_write_logits,
    .draw = draw,
    .show_logits = compute_gpu_show_logits,
    .keep_outputs = compute_gpu_keep_outputs,
    .greedy = compute_gpu_find_greedy,
    .keep_slot = compute_gpu_keep_slot,
    .mtp_project = compute_gpu_project_mtp,
    .mtp_begin = compute_gpu_begin_mtp,
    .mtp_finish = compute_gpu_finish_mtp,
    .clear_row = compute_gpu_clear_row,
};

/* ---- devices ---- */

static struct gpu_offer offered;

void compute_gpu_offer(const struct gpu_offer *offer) {
    offered = *offer;
}

static enum status no_cuda(struct error *error) {
    return error_set(error, STATUS_UNSUPPORTED,
                     "--device cuda: this program was built without kernels for GPUs; build with "
                     "-Dcuda=enabled where CUDA 12.9 or later is installed, or use --device cpu "
                     "('fathom inspect gpu' says what GPUs are here)");
}

enum status compute_gpu_take_kernels(struct model *model, const struct model_options *options,
                                     const struct gpu_kernels *kernels, struct error *error) {
    if (model->shape->expert_form != EXPERTS_PLAIN)
        return error_set(error, STATUS_UNSUPPORTED,
                         "the GPU engine does not support experts in INT4 or MXFP4; use "
                         "--device cpu");
    if (shape_has_index(model->shape))
        return error_set(error, STATUS_UNSUPPORTED,
                         "the GPU engine does not support the sparse attention of %s; use "
                         "--device cpu",
                         shape_architecture_name(model->shape->architecture));
    enum status status = kernels->takes ? kernels->takes(model, options->mtp, error) : STATUS_OK;
    model->device_kernels = kernels;
    model->kv_b_bf16 = kernels->kv_b_bf16 && model->rounds_bf16;
    return status;
}

static enum status open_gpu(uint32_t index, struct device **device_out, struct error *error) {
    struct error why;
    enum status status = device_open_cuda(index, device_out, &why);
    if (status == STATUS_OK) return status;
    return error_set(error, status,
                     "--device cuda: %s; use --device cpu ('fathom inspect gpu' says what GPUs are "
                     "here)",
                     why.text);
}

static enum status open_cuda(struct model *model, const struct model_options *options,
                             struct error *error) {
    const struct gpu_kernels *kernels =
        options->device_kernels ? options->device_kernels : offered.cuda;
    if (!kernels) return no_cuda(error);
    enum status status = compute_gpu_take_kernels(model, options, kernels, error);
    return status ? status : open_gpu(options->device_index, &model->device, error);
}

const struct model_device model_on_cuda = {"cuda", &compute_on_gpu, open_cuda};

enum status compute_gpu_find(const char *name, const struct model_device **device_out,
                             struct error *error) {
    const struct model_device *const devices[] = {&model_on_cpu, &model_on_cuda,
                                                  offered.emulated[0], offered.emulated[1]};
    for (size_t i = 0; i < ARRAY_COUNT(devices); i++)
        if (devices[i] && !strcmp(name, devices[i]->name)) {
            *device_out = devices[i];
            return STATUS_OK;
        }
    return error_set(error, STATUS_INVALID,
                     "--device %s: expected cpu or cuda (emulated devices are for tests: a build "
                     "with -Dtests=enabled has them in build/fathom-emulated)",
                     name);
}

/* Whether a GPU can be opened. */
static enum status check_gpu(struct error *error) {
    struct device *device;
    enum status status = open_gpu(0, &device, error);
    if (status == STATUS_OK) device_close(device);
    return status;
}

enum status compute_gpu_check(const char *name, struct error *error) {
    const struct model_device *device;
    enum status status = compute_gpu_find(name, &device, error);
    if (status != STATUS_OK || device != &model_on_cuda) return status;
    return offered.cuda ? check_gpu(error) : no_cuda(error);
}
