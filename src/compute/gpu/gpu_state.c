/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/gpu/gpu_state.h"

#include "base/check.h"
#include "base/number.h"
#include "compute/exchange/job.h"
#include "compute/gpu/gpu_rounds.h"
#include "compute/model/rope.h"

#include <stdlib.h>
#include <string.h>

static uint32_t gpu_state_larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static uint32_t gpu_state_padded(uint32_t columns) {
    return (uint32_t)round_up(columns, MATMUL_PANEL);
}

/* Adds an allocation to the list, which grows: several hosts need more allocations. */
static bool list_memory(struct gpu_state *state, void *memory) {
    if (state->memory_count == state->memory_capacity) {
        uint32_t room = 2 * state->memory_capacity + 64;
        void **more = realloc(state->memory, room * sizeof *more);
        if (!more) return false;
        state->memory = more;
        state->memory_capacity = room;
    }
    state->memory[state->memory_count++] = memory;
    return true;
}

static void *allocate_kind(struct gpu_allocator *allocator, size_t bytes, enum device_memory kind,
                           const char *what) {
    struct gpu_state *state = allocator->state;
    void *memory = NULL;
    if (allocator->status != STATUS_OK || !bytes) return NULL;
    allocator->status =
        device_allocate_kind(state->device, bytes, what, kind, &memory, allocator->error);
    if (allocator->status != STATUS_OK) return NULL;
    if (list_memory(state, memory)) return memory;
    device_release(state->device, memory);
    allocator->status = error_set(allocator->error, STATUS_NO_MEMORY, "no memory to list %s", what);
    return NULL;
}

void *gpu_state_allocate(struct gpu_allocator *allocator, size_t bytes, bool pinned,
                         const char *what) {
    return allocate_kind(allocator, bytes, pinned ? DEVICE_PINNED : DEVICE_PLAIN, what);
}

void *gpu_state_allocate_shared(struct gpu_allocator *allocator, size_t bytes, const char *what) {
    return allocate_kind(allocator, bytes, DEVICE_SHARED, what);
}

static float *allocate_floats(struct gpu_allocator *allocator, size_t rows, size_t columns,
                              const char *what) {
    return gpu_state_allocate(allocator, rows * columns * sizeof(float), false, what);
}

static struct gpu_rows gpu_state_allocate_rows(struct gpu_allocator *allocator, uint32_t rows,
                                               uint32_t columns, const char *what) {
    struct gpu_rows taken = {.pitch = (uint32_t)round_up(columns * sizeof(float), 16),
                             .scale_stride = (uint32_t)round_up(rows, 4)};
    taken.data = gpu_state_allocate(allocator, (size_t)rows * taken.pitch, false, what);
    taken.scales =
        allocate_floats(allocator, divide_up(columns, QUANT_GROUP), taken.scale_stride, what);
    return taken;
}

struct gpu_heads gpu_state_heads_of(const struct model *model) {
    const struct shape *shape = model->shape;
    return (struct gpu_heads){.heads = shape->heads,
                              .nope_dim = shape->nope_dim,
                              .rope_dim = shape->rope_dim,
                              .value_dim = shape->value_dim,
                              .kv_rank = shape->kv_rank,
                              .is_bf16 = model->rounds_bf16,
                              .scale = shape->attention_scale};
}

static void gpu_state_set_strides(struct gpu_state *state, const struct model *model) {
    const struct shape *shape = model->shape;
    size_t element = model->rounds_bf16 ? sizeof(uint16_t) : sizeof(float);
    state->q_a_stride = gpu_state_padded(shape->q_rank);
    state->q_stride = gpu_state_padded(shape->heads * shape_query_dim(shape));
    state->kv_a_stride = gpu_state_padded(shape_kv_width(shape));
    state->hidden_stride = gpu_state_padded(shape->hidden);
    state->mlp_stride = gpu_state_padded(
        gpu_state_larger(shape->dense_width, shape->shared_experts * shape->expert_width));
    state->experts_stride = gpu_state_padded(shape->experts);
    state->expert_stride = gpu_state_padded(shape->expert_width);
    state->vocab_stride = gpu_state_padded(shape->vocab);
    state->queries_pitch = (uint32_t)round_up(shape->heads * shape_query_dim(shape) * element, 16);
    state->absorbed_pitch = (uint32_t)round_up(shape->heads * shape_kv_width(shape) * element, 16);
    state->u_pitch = (uint32_t)round_up(shape->heads * shape->kv_rank * element, 16);
}

/* Enough for a tile of tokens. With long contexts enough for fewer tokens, but at least for one. */
static void allocate_core_workspace(struct gpu_allocator *allocator, const struct model *model) {
    struct gpu_state *state = allocator->state;
    struct gpu_heads heads = gpu_state_heads_of(model);
    uint32_t keys = state->positions_max + 1; /* MTP's rows are one position further */
    if (!state->kernels->core_workspace) return;
    size_t one = state->kernels->core_workspace(&heads, 1, keys);
    size_t tile = state->kernels->core_workspace(&heads, GPU_ABSORB_TILE, keys);
    state->core_floats = tile < GPU_CORE_FLOATS ? tile : GPU_CORE_FLOATS;
    if (state->core_floats < one) state->core_floats = one;
    state->core_workspace = allocate_floats(allocator, OVERLAP_MICRO_BATCHES, state->core_floats,
                                            "workspaces of the core attention");
}

/* Enough for the longest prompt, or for as many of its keys as fit GPU_PROMPT_BYTES. */
static void allocate_prompt_workspace(struct gpu_allocator *allocator, const struct model *model) {
    struct gpu_state *state = allocator->state;
    struct gpu_heads heads = gpu_state_heads_of(model);
    if (!state->kernels->prompt_workspace) return;
    size_t none = state->kernels->prompt_workspace(&heads, state->rows_max, 0);
    size_t tile = state->kernels->prompt_workspace(&heads, state->rows_max, GPU_PROMPT_TILE) - none;
    size_t fit = GPU_PROMPT_BYTES > none + tile ? (GPU_PROMPT_BYTES - none) / tile : 1;
    size_t most = divide_up(state->positions_max + 1,
                            GPU_PROMPT_TILE); /* MTP's rows are one position further */
    state->prompt_keys = (uint32_t)(fit < most ? fit : most) * GPU_PROMPT_TILE;
    state->prompt_bytes =
        state->kernels->prompt_workspace(&heads, state->rows_max, state->prompt_keys);
    state->prompt_workspace =
        gpu_state_allocate(allocator, OVERLAP_MICRO_BATCHES * state->prompt_bytes, false,
                           "workspaces of the prompts' attention");
}

static void gpu_state_allocate_tokens(struct gpu_allocator *allocator, const struct model *model) {
    struct gpu_state *state = allocator->state;
    const struct shape *shape = model->shape;
    uint32_t rows = state->rows_max, hidden = shape->hidden;
    uint32_t attended = shape->heads * shape->value_dim;
    uint32_t widest = gpu_state_larger(gpu_state_larger(hidden, shape->q_rank),
                                       gpu_state_larger(attended, state->mlp_stride));
    if (model->weights.mtp) widest = gpu_state_larger(widest, 2 * hidden);
    state->x = allocate_floats(allocator, state->tokens_max, hidden, "x");
    state->input = gpu_state_allocate_rows(allocator, rows, widest, "inputs");
    state->input_shared =
        gpu_state_allocate_rows(allocator, rows, widest, "inputs of the shared expert");
    state->normed = allocate_floats(allocator, rows, hidden, "normalized values");
    state->q_a = allocate_floats(allocator, rows, state->q_a_stride, "q_a");
    state->q = allocate_floats(allocator, rows, state->q_stride, "q");
    state->kv_a = allocate_floats(allocator, rows, state->kv_a_stride, "kv_a");
    state->queries =
        gpu_state_allocate(allocator, (size_t)rows * state->queries_pitch, false, "queries");
    state->attended = allocate_floats(allocator, rows, attended, "attended values");
    state->y = allocate_floats(allocator, rows, state->hidden_stride, "results");
    state->gate = allocate_floats(allocator, rows, state->mlp_stride, "gates");
    state->up = allocate_floats(allocator, rows, state->mlp_stride, "ups");
    size_t tile = (size_t)OVERLAP_MICRO_BATCHES * GPU_ABSORB_TILE;
    state->absorbed =
        gpu_state_allocate(allocator, tile * state->absorbed_pitch, false, "absorbed queries");
    state->u = gpu_state_allocate(allocator, tile * state->u_pitch, false, "attended latents");
    allocate_core_workspace(allocator, model);
    allocate_prompt_workspace(allocator, model);
    if (!model->weights.mtp) return;
    state->hidden = allocate_floats(allocator, state->tokens_max, hidden, "outputs");
    state->kept = allocate_floats(allocator, (size_t)model->slots_max * (1 + LIMIT_DRAFTS), hidden,
                                  "outputs that slots keep");
    state->mtp_pair =
        allocate_floats(allocator, state->tokens_max, 2 * (size_t)hidden, "MTP's pairs");
    state->mtp_u =
        allocate_floats(allocator, state->tokens_max, state->hidden_stride, "MTP's inputs");
}

/* Peer memory if all ranks are on one host; communicators if there are several hosts and the device
 * has them. */
static enum status choose_transport(struct gpu_state *state, const struct model *model,
                                    struct error *error) {
    if (!model->placement.ranks || model->rows_by_host || !job_exists()) return STATUS_OK;
    state->transport = job_is_one_host() ? GPU_VIA_PEER_MEMORY : GPU_VIA_COMM;
    if (state->transport == GPU_VIA_PEER_MEMORY) return STATUS_OK;
    enum status status = device_load_comm(state->device, error);
    if (status != STATUS_UNSUPPORTED) return status;
    state->transport = GPU_VIA_HOST;
    return STATUS_OK;
}

/* Several ranks may send this one far more rows than its share; rows beyond the limit are computed
 * in further rounds. */
uint32_t gpu_state_expert_rows(const struct model *model) {
    uint32_t rows = model->gpu->rows_max, per_token = model->shape->experts_per_token;
    uint32_t round = rows + GPU_ROUND_ROWS, ranks = model->placement.ranks;
    if (model->gpu->transport == GPU_VIA_COMM)
        return ranks *
               gpu_rounds_chunk_pairs(ranks, round,
                                      rows * min_u32(per_token, model->placement.slots_per_rank));
    return ranks && round < rows * per_token ? round : rows * per_token;
}

static void allocate_experts(struct gpu_allocator *allocator, const struct model *model) {
    struct gpu_state *state = allocator->state;
    const struct shape *shape = model->shape;
    uint32_t rows = state->rows_max, pairs = gpu_state_expert_rows(model);
    size_t words = (size_t)rows * shape->experts_per_token * sizeof(uint32_t);
    if (!shape->experts) return;
    state->shared_y =
        allocate_floats(allocator, rows, state->hidden_stride, "the shared expert's results");
    state->router_logits =
        allocate_floats(allocator, rows, state->experts_stride, "the router's logits");
    state->experts = gpu_state_allocate(allocator, words, false, "choices of experts");
    state->expert_weights = gpu_state_allocate(allocator, words, false, "experts' weights");
    state->pair_row = gpu_state_allocate(allocator, words, false, "pairs' rows");
    state->row_token = gpu_state_allocate(allocator, words, false, "rows' tokens");
    state->groups = gpu_state_allocate(
        allocator, sizeof(struct gpu_group) * OVERLAP_MICRO_BATCHES * shape->experts, false,
        "experts' groups");
    state->expert_input =
        gpu_state_allocate_rows(allocator, pairs, shape->hidden, "inputs of experts");
    state->expert_intermediate = gpu_state_allocate_rows(allocator, pairs, shape->expert_width,
                                                         "intermediate values of experts");
    state->expert_gate = allocate_floats(allocator, pairs, state->expert_stride, "experts' gates");
    state->expert_up = allocate_floats(allocator, pairs, state->expert_stride, "experts' ups");
    state->expert_y = allocate_floats(allocator, pairs, state->hidden_stride, "experts' results");
    size_t slots_bytes = OVERLAP_MICRO_BATCHES * model->weights.slot_count * sizeof(uint32_t);
    state->slot_tokens = gpu_state_allocate(allocator, slots_bytes, false, "tokens of slots");
    state->slot_tokens_host = gpu_state_allocate(allocator, slots_bytes, true, "tokens of slots");
}

static void allocate_outputs(struct gpu_allocator *allocator, const struct model *model) {
    struct gpu_state *state = allocator->state;
    state->outputs_max =
        gpu_state_larger(model->step_rows_max * (1 + LIMIT_DRAFTS), state->tokens_max);
    state->gathered =
        allocate_floats(allocator, state->outputs_max, model->shape->hidden, "outputs wanted");
    state->logits = allocate_floats(allocator, GPU_LOGITS_TILE, state->vocab_stride, "logits");
    size_t rules_bytes = state->outputs_max * sizeof(struct draw_rule);
    state->rules = gpu_state_allocate(allocator, rules_bytes, false, "rules of draws");
    state->rules_host =
        gpu_state_allocate(allocator, rules_bytes, true, "rules of draws on the host");
    state->drawn =
        gpu_state_allocate(allocator, state->outputs_max * sizeof(uint32_t), false, "drawn tokens");
    state->logits_host =
        gpu_state_allocate(allocator, (size_t)GPU_LOGITS_TILE * model->shape->vocab * sizeof(float),
                           true, "logits on the host");
    uint32_t words = gpu_state_larger(state->outputs_max, model->shape->experts_per_token);
    state->words_host =
        gpu_state_allocate(allocator, words * sizeof(uint32_t), true, "words on the host");
}

static size_t token_words(const struct gpu_state *state) {
    return round_up(state->tokens_max, 4);
}

#define LIVE_WORDS round_up(1 + OVERLAP_MICRO_BATCHES, 4)

/* Counts, six arrays of tokens, runs and pages. */
static void allocate_staging(struct gpu_allocator *allocator) {
    struct gpu_state *state = allocator->state;
    state->staging_bytes = (LIVE_WORDS + 6 * token_words(state)) * sizeof(uint32_t) +
                           state->runs_max * sizeof(struct gpu_run) +
                           state->pages_max * sizeof(uint32_t);
    for (uint32_t i = 0; i < GPU_STAGING_BUFFERS && !allocator->status; i++) {
        struct gpu_staging *staging = &state->staging[i];
        staging->host = gpu_state_allocate(allocator, state->staging_bytes, true,
                                           "a batch's arrays on the host");
        staging->device =
            gpu_state_allocate(allocator, state->staging_bytes, false, "a batch's arrays");
        if (!allocator->status)
            allocator->status = device_open_event(state->device, &staging->sent, allocator->error);
    }
}

static enum status gpu_state_open_streams(struct gpu_state *state, struct error *error) {
    enum status status = device_open_event(state->device, &state->begun, error);
    if (!status) status = device_open_stream(state->device, &state->report_stream, error);
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES && !status; i++) {
        struct gpu_micro_batch *micro_batch = &state->micro_batches[i];
        micro_batch->tile = i * GPU_ABSORB_TILE;
        status = device_open_stream(state->device, &micro_batch->stream, error);
        if (!status) status = device_open_event(state->device, &micro_batch->written, error);
        if (!status) status = device_open_event(state->device, &micro_batch->done, error);
    }
    if (status == STATUS_OK) state->mtp = state->micro_batches[0];
    state->reported_events = calloc(state->reported_max, sizeof(struct device_event *));
    state->reported = calloc(state->reported_max, sizeof *state->reported);
    if (!state->reported_events || !state->reported)
        return error_set(error, STATUS_NO_MEMORY, "no memory for events");
    for (uint32_t i = 0; i < state->reported_max && !status; i++)
        status = device_open_event(state->device, &state->reported_events[i], error);
    return status;
}

static enum status open_marks(struct gpu_state *state, const struct model *model,
                              struct error *error) {
    enum status status = STATUS_OK;
    if (!model->trace || !model->trace->took) return STATUS_OK;
    state->marks = calloc(GPU_MARKS, sizeof *state->marks);
    if (!state->marks) return error_set(error, STATUS_NO_MEMORY, "no memory for marks");
    for (uint32_t i = 0; i < GPU_MARKS && !status; i++)
        status = device_open_timed_event(state->device, &state->marks[i].event, error);
    return status;
}

/* Fills the rotary angles of all positions that pages can hold, and zeros the counters. */
static enum status fill(struct gpu_state *state, const struct model *model, struct error *error) {
    struct device_stream *stream = state->micro_batches[0].stream;
    uint32_t dim = model->shape->rope_dim, some = 1024;
    size_t row_bytes = dim * sizeof(float);
    void *host = NULL;
    enum status status =
        device_allocate_pinned(state->device, some * row_bytes, "angles on the host", &host, error);
    uint32_t *positions = malloc(some * sizeof *positions);
    if (status == STATUS_OK && !positions)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for angles");
    for (uint32_t first = 0; first < state->positions_max && !status; first += some) {
        uint32_t left = state->positions_max - first, count = left < some ? left : some;
        for (uint32_t i = 0; i < count; i++)
            positions[i] = first + i;
        rope_prepare(model->shape, positions, count, host);
        device_copy(state->device, stream, state->angles + (size_t)first * dim, host,
                    count * row_bytes, DEVICE_FROM_HOST);
        status = device_synchronize_stream(state->device, stream, error);
    }
    free(positions);
    device_release(state->device, host);
    if (state->slot_tokens)
        device_fill(state->device, stream, state->slot_tokens, 0,
                    OVERLAP_MICRO_BATCHES * model->weights.slot_count * sizeof(uint32_t));
    enum status waited = device_synchronize_stream(state->device, stream, error);
    return status ? status : waited;
}

enum status gpu_state_open(struct model *model, struct error *error) {
    struct gpu_state *state = model->gpu = calloc(1, sizeof *state);
    if (!state) return error_set(error, STATUS_NO_MEMORY, "no memory for the device's engine");
    struct gpu_allocator allocator = {.state = state, .error = error};
    uint64_t positions = (uint64_t)model->kv.page_count * KV_BLOCK_TOKENS;
    uint32_t context = shape_positions_max(model->shape);
    state->device = model->device;
    state->kernels = model->device_kernels;
    state->tokens_max = model->scratch_tokens;
    state->rows_max = (uint32_t)round_up(model->scratch_tokens, 4) + 4 * OVERLAP_MICRO_BATCHES;
    state->positions_max = positions < context ? (uint32_t)positions : context;
    if (state->rows_max < GPU_LOGITS_TILE) state->rows_max = GPU_LOGITS_TILE;
    state->runs_max = 2 * model->step_rows_max + OVERLAP_MICRO_BATCHES;
    uint32_t row_pages = (uint32_t)divide_up(state->positions_max, KV_BLOCK_TOKENS);
    state->pages_max = 2 * model->step_rows_max * row_pages;
    state->reported_max = model->kv.format.slice_count + 1;
    gpu_state_set_strides(state, model);
    enum status status = gpu_state_open_streams(state, error);
    if (status == STATUS_OK) status = open_marks(state, model, error);
    if (status == STATUS_OK) status = choose_transport(state, model, error);
    if (status != STATUS_OK) return status;
    gpu_state_allocate_tokens(&allocator, model);
    allocate_experts(&allocator, model);
    allocate_outputs(&allocator, model);
    allocate_staging(&allocator);
    state->angles =
        allocate_floats(&allocator, state->positions_max, model->shape->rope_dim, "rotary angles");
    if (allocator.status != STATUS_OK) return allocator.status;
    return fill(state, model, error);
}

void gpu_state_finish(struct model *model) {
    struct gpu_state *state = model->gpu;
    if (!state) return;
    struct device *device = state->device;
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES; i++)
        if (state->micro_batches[i].stream)
            (void)device_synchronize_stream(device, state->micro_batches[i].stream, NULL);
    if (state->report_stream) (void)device_synchronize_stream(device, state->report_stream, NULL);
}

void gpu_state_close(struct model *model) {
    struct gpu_state *state = model->gpu;
    if (!state) return;
    struct device *device = state->device;
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES; i++) {
        device_close_event(device, state->micro_batches[i].written);
        device_close_event(device, state->micro_batches[i].done);
        device_close_stream(device, state->micro_batches[i].stream);
    }
    for (uint32_t i = 0; i < GPU_STAGING_BUFFERS; i++)
        device_close_event(device, state->staging[i].sent);
    for (uint32_t i = 0; state->reported_events && i < state->reported_max; i++)
        device_close_event(device, state->reported_events[i]);
    for (uint32_t i = 0; state->marks && i < GPU_MARKS; i++)
        device_close_event(device, state->marks[i].event);
    device_close_event(device, state->begun);
    device_close_stream(device, state->report_stream);
    for (uint32_t i = 0; i < state->memory_count; i++)
        device_release(device, state->memory[i]);
    free(state->memory);
    free(state->marks);
    free(state->reported_events);
    free(state->reported);
    free(state);
    model->gpu = NULL;
}

uint32_t gpu_state_most_keys(const struct batch *batch) {
    uint32_t most = 0;
    for (uint32_t i = batch->prompt_runs; i < batch->run_count; i++) {
        const struct run *run = &batch->runs[i];
        uint32_t end = run->first_position + run->token_count + run->kv_shift;
        if (run->token_count && end > most) most = end;
    }
    return most;
}

void gpu_state_note(struct gpu_state *state, enum status status, const struct error *error) {
    if (status == STATUS_OK || state->status != STATUS_OK) return;
    state->status = status;
    state->error = *error;
}

/* ---- a step's times ---- */

void gpu_state_mark(const struct pass *pass, enum stage_part part) {
    struct gpu_state *state = pass->model->gpu;
    if (!state->marks || state->mark_count == GPU_MARKS) return;
    struct gpu_mark *mark = &state->marks[state->mark_count++];
    mark->micro_batch = gpu_micro_batch_of(pass);
    mark->part = part;
    device_record(state->device, mark->event, mark->micro_batch->stream);
}

/* A part's time is the time since the micro-batch's previous mark. */
void gpu_state_report_marks(struct model *model) {
    struct gpu_state *state = model->gpu;
    const struct model_trace *trace = model->trace;
    for (uint32_t i = 1; i < state->mark_count; i++) {
        const struct gpu_mark *mark = &state->marks[i];
        uint32_t before = i;
        while (before-- > 0 && state->marks[before].micro_batch != mark->micro_batch)
            ;
        if (mark->part == STAGE_PART_COUNT || before == UINT32_MAX) continue;
        trace->took(trace->context, mark->part,
                    device_elapsed_seconds(state->device, state->marks[before].event, mark->event));
    }
    state->mark_count = 0;
}

/* ---- a batch's arrays ---- */

/* The arrays' addresses in staging memory at `base`. */
static struct gpu_batch gpu_state_lay_out(const struct gpu_state *state, char *base) {
    uint32_t *live = (uint32_t *)(void *)base, *words = live + LIVE_WORDS;
    size_t tokens = token_words(state);
    struct gpu_batch batch = {.live = live,
                              .ids = words,
                              .positions = words + tokens,
                              .kv_index = words + 2 * tokens,
                              .kv_first = words + 3 * tokens,
                              .first_page = words + 4 * tokens,
                              .source = words + 5 * tokens,
                              .runs = (struct gpu_run *)(void *)(words + 6 * tokens)};
    batch.pages = (uint32_t *)(void *)(batch.runs + state->runs_max);
    return batch;
}

struct gpu_batch gpu_state_from(const struct gpu_batch *batch, uint32_t token, uint32_t run) {
    return (struct gpu_batch){.ids = batch->ids + token,
                              .positions = batch->positions + token,
                              .kv_index = batch->kv_index + token,
                              .kv_first = batch->kv_first + token,
                              .first_page = batch->first_page + token,
                              .source = batch->source + token,
                              .pages = batch->pages,
                              .runs = batch->runs + run,
                              .live = batch->live};
}

struct filling { /* a staging buffer that is being filled */
    const struct gpu_state *state;
    struct gpu_batch batch;
    uint32_t tokens, runs, pages;
};

static void gpu_state_add_token(struct filling *filling, const struct batch *batch, uint32_t token,
                                const struct run *run, uint32_t first_page) {
    uint32_t at = filling->tokens + token, index = batch->positions[token] + run->kv_shift;
    struct output_ref ref = batch->outputs[token];
    check(batch->positions[token] < filling->state->positions_max);
    filling->batch.ids[at] = batch->token_ids[token];
    filling->batch.positions[at] = batch->positions[token];
    filling->batch.kv_index[at] = index;
    filling->batch.kv_first[at] = run->kv_shift;
    filling->batch.first_page[at] = first_page;
    filling->batch.source[at] = ref.slot == OUTPUT_OF_STEP
                                    ? ref.index
                                    : GPU_KEPT | (ref.slot * (1 + LIMIT_DRAFTS) + ref.index);
}

static void add_batch(struct filling *filling, const struct batch *batch) {
    for (uint32_t i = 0; i < batch->run_count; i++) {
        const struct run *run = &batch->runs[i];
        uint32_t end = run->first_position + run->token_count + run->kv_shift;
        uint32_t pages = run->token_count ? (uint32_t)divide_up(end, KV_BLOCK_TOKENS) : 0;
        check(pages <= filling->state->pages_max - filling->pages);
        for (uint32_t page = 0; page < pages; page++)
            filling->batch.pages[filling->pages + page] = run->pages[page].index;
        for (uint32_t k = 0; k < run->token_count; k++)
            gpu_state_add_token(filling, batch, run->first + k, run, filling->pages);
        filling->pages += pages;
    }
    filling->tokens += batch->token_count;
}

/* Adds the runs of a micro-batch's prompts. Their pages are those of the step; their rows count
 * from the micro-batch's first row. */
static void gpu_state_add_runs(struct filling *filling, const struct batch *batch,
                               uint32_t first_token) {
    for (uint32_t i = 0; i < batch->prompt_runs; i++) {
        const struct run *run = &batch->runs[i];
        if (!run->token_count) continue;
        check(filling->runs < filling->state->runs_max);
        filling->batch.runs[filling->runs++] =
            (struct gpu_run){.first = run->first,
                             .count = run->token_count,
                             .kv_first = run->kv_shift,
                             .first_page = filling->batch.first_page[first_token + run->first]};
    }
}

struct gpu_batch gpu_state_send(struct model *model, const struct batch *first,
                                const struct batch *second) {
    struct gpu_state *state = model->gpu;
    struct gpu_staging *staging = &state->staging[state->next_staging];
    struct error error;
    gpu_state_note(state, device_synchronize_event(state->device, staging->sent, &error), &error);
    state->next_staging = (state->next_staging + 1) % GPU_STAGING_BUFFERS;
    struct filling filling = {.state = state, .batch = gpu_state_lay_out(state, staging->host)};
    add_batch(&filling, first);
    if (second) {
        add_batch(&filling, second);
        gpu_state_add_runs(&filling, second, first->token_count);
    }
    for (uint32_t micro_batch = 0; !second && micro_batch < model->micro_batch_count; micro_batch++)
        gpu_state_add_runs(&filling, &model->micro_batches[micro_batch].batch,
                           model->micro_batches[micro_batch].first);
    filling.batch.live[0] = filling.tokens;
    for (uint32_t micro_batch = 0; micro_batch < OVERLAP_MICRO_BATCHES; micro_batch++)
        filling.batch.live[1 + micro_batch] =
            !second && micro_batch < model->micro_batch_count
                ? model->micro_batches[micro_batch].batch.token_count
                : 0;
    struct device_stream *stream = state->micro_batches[0].stream;
    size_t used = (size_t)((char *)(filling.batch.pages + filling.pages) - staging->host);
    device_copy(state->device, stream, staging->device, staging->host, used, DEVICE_FROM_HOST);
    device_record(state->device, staging->sent, stream);
    return gpu_state_lay_out(state, staging->device);
}
