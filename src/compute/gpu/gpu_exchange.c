/* SPDX-License-Identifier: Apache-2.0
 * Each micro-batch has its own places for rows that it sends and results that return, from its
 * first row on. Rows that this rank's experts compute share one buffer, because the host waits for
 * a micro-batch's results before it continues. As many rows as fit are a round. A round is divided
 * into batches, which end where the exchange can send results. Returned results are copied to the
 * device through two alternating halves of page-locked memory.
 *
 * With peer memory (gpu_peers.h) the exchange transports row descriptors. The unpacking kernel
 * reads each row in its owner's memory, and another kernel writes each result to its owner's
 * memory. The token's rank computes the sums; there are no partial sums. With communicators
 * (gpu_comm.h) a round's rows are received where the unpacking kernel reads them, and its results
 * are sent from where the other kernel writes them. The host then waits for a micro-batch's
 * transfers only in its last stage.
 */
#include "compute/gpu/gpu_exchange.h"

#include "base/check.h"
#include "base/heartbeat.h"
#include "compute/exchange/exchange.h"
#include "compute/exchange/job.h"
#include "compute/gpu/gpu_comm.h"
#include "compute/gpu/gpu_graphs.h"
#include "compute/gpu/gpu_layers.h"
#include "compute/gpu/gpu_peers.h"
#include "compute/model/token_loop.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ROUND_EXPERT_BATCHES                                                                       \
    (EXCHANGE_EXPERT_BATCHES + 1) /* the exchange ends at most EXCHANGE_EXPERT_BATCHES */
#define SUMS 128                  /* partial sums computed at a time */
#define RETURNED 256              /* results in one half of the page-locked memory */
#define REST_NS                                                                                    \
    ((int64_t)50000) /* one sleep of a rank that waits for its device while ranks outnumber CPUs */

static_assert(GPU_SUMMED == EXCHANGE_SUMMED, "the device's kernels know what the exchange says");

struct gpu_exchange {
    uint32_t per_token, round_rows;
    size_t dispatch_bytes, combine_bytes;
    /* Indexed by rows of micro-batches; host memory is page-locked. */
    char *outgoing, *outgoing_host; /* [rows_max][dispatch_bytes] */
    uint32_t *experts_host,
        *rows_host;      /* [rows_max][per_token]; rows_host: row of each returned result */
    float *weights_host; /* [rows_max][per_token] */
    char *returned;      /* [rows_max][per_token][combine_bytes] */
    char *returned_host; /* [2][returned_rows][combine_bytes] */
    uint32_t returned_rows, next_half;
    struct device_event *half_copied[2]; /* the half's last copy is done */
    /* Rows that this rank computes: */
    char *received, *received_host; /* [round_rows][dispatch_bytes] */
    char *results, *results_host;   /* [round_rows][combine_bytes] */
    /* [slots + 1] of this rank's slots in a layer; the last counts the rows of all */
    struct gpu_group *groups, *groups_host;
    uint32_t slots;
    /* [list_count][list_pitch]: groups, row_from, row_to, outgoing rows of gpu_comm */
    char *lists, *lists_host;
    size_t list_pitch;
    uint32_t list_count;
    struct device_event *computed[ROUND_EXPERT_BATCHES];
    /* With peer memory or communicators; else NULL: */
    struct gpu_peers *peers;
    struct gpu_comm *comm;
    struct device_event *lists_read; /* communicators: the device has read the last round's lists */
    /* communicators: all transfers of the micro-batch's last stage are done */
    struct device_event *comm_done[OVERLAP_MICRO_BATCHES];
    /* the last micro-batch that used the round's buffers; NULL: none */
    const struct gpu_micro_batch *last;
    uint32_t *counts;                       /* [ranks] */
    char *descriptors;                      /* [rows_max][dispatch_bytes of the exchange] */
    const char **row_from, **row_from_host; /* [round_rows] address of each row */
    char **row_to, **row_to_host;           /* [round_rows] address for each result */
    /* Partial sums of results in host memory: */
    struct device_stream *summing;
    char *summands, *summands_host;                /* [SUMS * per_token][combine_bytes] */
    uint32_t *sum_rows, *sum_rows_host;            /* [SUMS][per_token] */
    float *sum_weights, *sum_weights_host, *sum_y; /* [SUMS][per_token]; y: [SUMS][hidden_stride] */
    char *sums, *sums_host;                        /* [SUMS][combine_bytes] */
};

/* ---- opening and closing ---- */

static uint32_t gpu_exchange_least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static uint32_t gpu_exchange_larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static void *allocate_host(struct gpu_allocator *allocator, size_t bytes, const char *what) {
    return gpu_state_allocate(allocator, bytes, true, what);
}

static void *allocate_device(struct gpu_allocator *allocator, size_t bytes, const char *what) {
    return gpu_state_allocate(allocator, bytes, false, what);
}

/* Allocates memory for rows and results that pass through the host. */
static void allocate_host_buffers(struct gpu_allocator *allocator, uint32_t rows_max) {
    struct gpu_exchange *x = allocator->state->exchange;
    size_t outgoing = rows_max * x->dispatch_bytes, received = x->round_rows * x->dispatch_bytes;
    size_t returned = (size_t)rows_max * x->per_token * x->combine_bytes;
    size_t halves = 2 * x->returned_rows * x->combine_bytes;
    x->outgoing = allocate_device(allocator, outgoing, "rows to other ranks' experts");
    x->outgoing_host =
        allocate_host(allocator, outgoing, "rows to other ranks' experts, on the host");
    x->returned = allocate_device(allocator, returned, "results that came back");
    x->returned_host = allocate_host(allocator, halves, "results that came back, on the host");
    x->received = allocate_device(allocator, received, "rows that came to experts");
    x->received_host = allocate_host(allocator, received, "rows that came to experts, on the host");
    x->results_host = allocate_host(allocator, x->round_rows * x->combine_bytes,
                                    "results to other ranks, on the host");
}

/* Allocates memory for rows and results that pass from device to device. */
static void allocate_peer_buffers(struct gpu_allocator *allocator, uint32_t rows_max) {
    struct gpu_exchange *x = allocator->state->exchange;
    size_t results = (size_t)rows_max * x->per_token * x->combine_bytes;
    x->outgoing =
        gpu_state_allocate_shared(allocator, rows_max * x->dispatch_bytes, "rows to other ranks");
    x->returned = gpu_state_allocate_shared(allocator, results, "results from other ranks");
}

/* Allocates the lists of a round, which are copied to the device at once: one list in each row. */
static void gpu_exchange_allocate_lists(struct gpu_allocator *allocator, uint32_t slots,
                                        uint32_t outgoing) {
    struct gpu_exchange *x = allocator->state->exchange;
    size_t groups = (slots + 1) * sizeof *x->groups;
    size_t places = gpu_exchange_larger(x->round_rows, outgoing) * sizeof(char *);
    x->slots = slots;
    x->list_count = allocator->state->transport == GPU_VIA_HOST ? 1 : outgoing ? 4 : 3;
    x->list_pitch = round_up(groups > places ? groups : places, 16);
    x->lists = allocate_device(allocator, x->list_count * x->list_pitch, "lists of rows that came");
    x->lists_host = allocate_host(allocator, x->list_count * x->list_pitch,
                                  "lists of rows that came, on the host");
    x->groups = (struct gpu_group *)(void *)x->lists;
    x->groups_host = (struct gpu_group *)(void *)x->lists_host;
    if (allocator->status || x->list_count == 1) return;
    x->row_from = (const char **)(void *)(x->lists + x->list_pitch);
    x->row_from_host = (const char **)(void *)(x->lists_host + x->list_pitch);
    x->row_to = (char **)(void *)(x->lists + 2 * x->list_pitch);
    x->row_to_host = (char **)(void *)(x->lists_host + 2 * x->list_pitch);
}

static void gpu_exchange_allocate_rows(struct gpu_allocator *allocator, uint32_t rows_max) {
    struct gpu_exchange *x = allocator->state->exchange;
    size_t words = (size_t)rows_max * x->per_token * sizeof(uint32_t);
    size_t results = x->round_rows * x->combine_bytes;
    x->experts_host = allocate_host(allocator, words, "choices of experts, on the host");
    x->weights_host = allocate_host(allocator, words, "experts' weights, on the host");
    x->rows_host = allocate_host(allocator, words, "pairs' rows, on the host");
    x->results = allocate_device(allocator, results, "results to other ranks");
}

static void gpu_exchange_allocate_sums(struct gpu_allocator *allocator, uint32_t hidden_stride) {
    struct gpu_exchange *x = allocator->state->exchange;
    size_t rows = (size_t)SUMS * x->per_token * x->combine_bytes, sums = SUMS * x->combine_bytes;
    size_t words = (size_t)SUMS * x->per_token * sizeof(uint32_t);
    x->summands = allocate_device(allocator, rows, "results to be summed");
    x->summands_host = allocate_host(allocator, rows, "results to be summed, on the host");
    x->sum_rows = allocate_device(allocator, words, "rows to be summed");
    x->sum_rows_host = allocate_host(allocator, words, "rows to be summed, on the host");
    x->sum_weights = allocate_device(allocator, words, "weights of a sum");
    x->sum_weights_host = allocate_host(allocator, words, "weights of a sum, on the host");
    x->sum_y = allocate_device(allocator, SUMS * hidden_stride * sizeof(float), "sums, as floats");
    x->sums = allocate_device(allocator, sums, "sums");
    x->sums_host = allocate_host(allocator, sums, "sums, on the host");
}

/* Opens communicators. All ranks must enqueue their transfers in the same order. */
static enum status open_comm(struct model *model, struct gpu_allocator *allocator,
                             struct error *error) {
    struct gpu_state *state = model->gpu;
    struct gpu_exchange *x = state->exchange;
    uint32_t ranks = model->placement.ranks;
    const struct gpu_comm_buffers buffers = {
        .rows = x->outgoing,
        .results = x->returned,
        .row_bytes = x->dispatch_bytes,
        .result_bytes = x->combine_bytes,
        .outgoing = (const char **)(void *)(x->lists + 3 * x->list_pitch),
        .outgoing_host = (const char **)(void *)(x->lists_host + 3 * x->list_pitch)};
    model->fixed_order = true;
    x->counts = calloc(ranks, sizeof *x->counts);
    if (!x->counts) return error_set(error, STATUS_NO_MEMORY, "no memory to count rows");
    enum status status = device_open_event(state->device, &x->lists_read, error);
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES && !status; i++)
        status = device_open_event(state->device, &x->comm_done[i], error);
    if (status) return status;
    return gpu_comm_open(model, allocator, &buffers, x->round_rows / ranks, &x->comm, error);
}

/* The exchange transports row descriptors, and for a result only its announcement. */
static enum status open_descriptors(struct model *model, struct gpu_allocator *allocator,
                                    struct error *error) {
    struct gpu_state *state = model->gpu;
    struct gpu_exchange *x = state->exchange;
    const struct gpu_peer_buffers own = {x->outgoing, x->returned};
    model->dispatch_bytes = (uint32_t)gpu_peers_row_descriptor_bytes(x->per_token);
    model->combine_bytes = EXCHANGE_ALIGN;
    x->descriptors = calloc(state->rows_max, model->dispatch_bytes);
    if (!x->descriptors) return error_set(error, STATUS_NO_MEMORY, "no memory for row descriptors");
    if (state->transport == GPU_VIA_COMM) return open_comm(model, allocator, error);
    return gpu_peers_open(state->device, model->placement.ranks, model->rank, &own, &x->peers,
                          error);
}

enum status gpu_exchange_open(struct model *model, struct error *error) {
    const struct shape *shape = model->shape;
    struct gpu_state *state = model->gpu;
    struct gpu_exchange *x = state->exchange = calloc(1, sizeof *x);
    if (!x) return error_set(error, STATUS_NO_MEMORY, "no memory for the device's exchange");
    struct gpu_allocator allocator = {.state = state, .error = error};
    x->per_token = shape->experts_per_token;
    x->round_rows = gpu_state_expert_rows(model);
    x->returned_rows = gpu_exchange_least(state->rows_max * shape->experts_per_token, RETURNED);
    x->dispatch_bytes = exchange_rows_bytes(model->dispatch_form, shape->hidden);
    x->combine_bytes = exchange_rows_bytes(model->combine_form, shape->hidden);
    bool reach = state->transport != GPU_VIA_HOST;
    bool by_comm = state->transport == GPU_VIA_COMM;
    gpu_exchange_allocate_lists(
        &allocator, model->placement.slots_per_rank,
        by_comm ? gpu_comm_outgoing_max(model, x->round_rows / model->placement.ranks) : 0);
    gpu_exchange_allocate_rows(&allocator, state->rows_max);
    (reach ? allocate_peer_buffers : allocate_host_buffers)(&allocator, state->rows_max);
    if (reach && !allocator.status) allocator.status = open_descriptors(model, &allocator, error);
    if (model->group_experts && !reach)
        gpu_exchange_allocate_sums(&allocator, state->hidden_stride);
    if (allocator.status == STATUS_OK)
        allocator.status = device_open_stream(state->device, &x->summing, error);
    for (uint32_t i = 0; i < ROUND_EXPERT_BATCHES && !allocator.status; i++)
        allocator.status = device_open_event(state->device, &x->computed[i], error);
    for (uint32_t i = 0; i < 2 && !allocator.status; i++)
        allocator.status = device_open_event(state->device, &x->half_copied[i], error);
    return allocator.status;
}

void gpu_exchange_close(struct model *model) {
    struct gpu_state *state = model->gpu;
    if (!state || !state->exchange) return;
    struct gpu_exchange *x = state->exchange;
    for (uint32_t i = 0; i < ROUND_EXPERT_BATCHES; i++)
        device_close_event(state->device, x->computed[i]);
    for (uint32_t i = 0; i < 2; i++)
        device_close_event(state->device, x->half_copied[i]);
    device_close_stream(state->device, x->summing);
    gpu_peers_close(x->peers);
    gpu_comm_close(x->comm);
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES; i++)
        device_close_event(state->device, x->comm_done[i]);
    device_close_event(state->device, x->lists_read);
    free(x->counts);
    free(x->descriptors);
    free(x);
    state->exchange = NULL;
}

void gpu_exchange_connect(struct model *model) {
    struct gpu_exchange *x = model->gpu->exchange;
    struct error error;
    if (x && x->peers) gpu_state_note(model->gpu, gpu_peers_connect(x->peers, &error), &error);
    if (x && x->comm) gpu_comm_connect(x->comm);
}

/* ---- shared by all stages ---- */

static struct gpu_exchange *of_pass(const struct pass *pass) {
    return pass->model->gpu->exchange;
}

static void gpu_exchange_copy(const struct pass *pass, void *to, const void *from, size_t bytes,
                              enum device_direction way) {
    device_copy(pass->model->device, gpu_micro_batch_of(pass)->stream, to, from, bytes, way);
}

/* Waits for the event and makes progress on the exchange. An event after a communicator's transfer
 * is never done once a rank has died, unless the communicator is closed. If ranks outnumber CPUs it
 * yields the CPU, because other ranks must reach the same transfer. */
static void gpu_exchange_await(const struct pass *pass, struct device_event *event) {
    struct gpu_state *state = pass->model->gpu;
    struct error error;
    uint32_t looks = 0;
    while (!device_event_done(state->device, event)) {
        pass_progress(pass);
        if (!state->exchange->comm) continue;
        gpu_comm_poll(state->exchange->comm);
        job_backoff(&looks, REST_NS);
    }
    gpu_state_note(state, device_synchronize_event(state->device, event, &error), &error);
}

/* Waits for an event that depends on other ranks, and reports that to the heartbeat. */
static void await_others(const struct pass *pass, struct device_event *event) {
    heartbeat_set(HEARTBEAT_WAITS);
    gpu_exchange_await(pass, event);
    heartbeat_set(HEARTBEAT_COMPUTES);
}

/* The format of rows as the exchange transports them: each row's scales, if any, follow its codes.
 */
struct packed {
    float *scales;
    struct gpu_row_format format;
    uint32_t scale_step;
};

static struct packed packed_at(const struct pass *pass, char *rows) {
    size_t bytes = of_pass(pass)->dispatch_bytes;
    size_t scales_at = exchange_rows_scales_at(pass->model->shape->hidden);
    return (struct packed){.scales = (float *)(void *)(rows + scales_at),
                           .format = {gpu_layers_routed_kind(pass), (uint32_t)bytes, 1},
                           .scale_step = (uint32_t)(bytes / sizeof(float))};
}

/* The format of a result, or of a partial sum, in the exchange. */
static enum input_kind result_kind(const struct model *model) {
    return model->rounds_bf16 ? INPUT_BF16 : INPUT_F32;
}

static void gpu_exchange_pack_results(const struct model *model, struct device_stream *stream,
                                      const float *y, uint32_t stride, char *to, uint32_t rows,
                                      const uint32_t *live) {
    const struct gpu_rows packed = {.data = to,
                                    .pitch = (uint32_t)model->gpu->exchange->combine_bytes};
    struct gpu_prepare arguments = {
        .x = y, .live = live, .x_stride = stride, .n = model->shape->hidden, .rows = rows};
    gpu_layers_prepare_rows(model, stream, &packed, result_kind(model), arguments);
}

/* ---- dispatch ---- */

/* Packs the micro-batch's rows, and copies its tokens' experts and weights to the host. */
static void gpu_exchange_pack_rows(const struct pass *pass) {
    const struct model *model = pass->model;
    struct gpu_state *state = model->gpu;
    struct gpu_exchange *x = of_pass(pass);
    const struct gpu_micro_batch *micro_batch = gpu_micro_batch_of(pass);
    size_t at = micro_batch->row * x->dispatch_bytes,
           pair = (size_t)micro_batch->row * x->per_token;
    size_t words = (size_t)micro_batch->rows * x->per_token * sizeof(uint32_t);
    struct gpu_rows from = gpu_rows_from(&state->input, micro_batch->row);
    struct packed to = packed_at(pass, x->outgoing + at);
    struct gpu_gather pack = {.from = from.data,
                              .from_scales = from.scales,
                              .to = x->outgoing + at,
                              .to_scales = to.scales,
                              .live = micro_batch->live,
                              .from_format = gpu_row_format_of(&from, gpu_layers_routed_kind(pass)),
                              .to_format = to.format,
                              .n = model->shape->hidden,
                              .rows = micro_batch->rows,
                              .live_each = 1,
                              .from_scale_step = 1,
                              .to_scale_step = to.scale_step};
    gpu_launch(state, micro_batch->stream, gather, pack);
    gpu_exchange_copy(pass, x->experts_host + pair, state->experts + pair, words, DEVICE_TO_HOST);
    gpu_exchange_copy(pass, x->weights_host + pair, state->expert_weights + pair, words,
                      DEVICE_TO_HOST);
}

/* Packs the rows, copies them to the host if they pass through it, and waits. */
static void fetch_rows(const struct pass *pass) {
    struct gpu_exchange *x = of_pass(pass);
    const struct gpu_micro_batch *micro_batch = gpu_micro_batch_of(pass);
    size_t at = micro_batch->row * x->dispatch_bytes;
    if (gpu_micro_batch_enter(pass)) gpu_exchange_pack_rows(pass);
    gpu_graphs_stop(pass->model);
    if (!x->descriptors)
        gpu_exchange_copy(pass, x->outgoing_host + at, x->outgoing + at,
                          pass->batch->token_count * x->dispatch_bytes, DEVICE_TO_HOST);
    pass_part(pass, PART_SEND);
    device_record(pass->model->device, micro_batch->done, micro_batch->stream);
    gpu_exchange_await(pass, micro_batch->done);
}

/* Writes arbitrary experts. After a failure of its device, which the end of the step reports, a
 * rank takes part in the exchange until then, since other ranks wait for it. */
static void choose_any(const struct pass *pass, uint32_t *experts) {
    uint32_t per_token = of_pass(pass)->per_token;
    for (uint32_t i = 0; i < pass->batch->token_count * per_token; i++)
        experts[i] = i % per_token;
}

/* Writes the row descriptors of the micro-batch's tokens; returns the first. */
static const char *write_descriptors(const struct pass *pass) {
    const struct model *model = pass->model;
    struct gpu_exchange *x = of_pass(pass);
    uint32_t first = gpu_micro_batch_of(pass)->row;
    for (uint32_t i = 0; i < pass->batch->token_count; i++)
        gpu_peers_row_descriptor_write(
            x->descriptors + (size_t)(first + i) * model->dispatch_bytes, model->rank, first + i,
            x->experts_host + (size_t)(first + i) * x->per_token, x->per_token);
    return x->descriptors + (size_t)first * model->dispatch_bytes;
}

void gpu_exchange_dispatch(const struct pass *pass) {
    struct gpu_exchange *x = of_pass(pass);
    uint32_t row = gpu_micro_batch_of(pass)->row, tokens = pass->batch->token_count;
    size_t pair = (size_t)row * x->per_token;
    if (tokens) fetch_rows(pass);
    if (pass->model->gpu->status != STATUS_OK) choose_any(pass, x->experts_host + pair);
    exchange_dispatch_begin(
        pass->exchange, pass->layer, x->experts_host + pair, x->weights_host + pair, tokens,
        x->descriptors ? write_descriptors(pass) : x->outgoing_host + row * x->dispatch_bytes);
}

/* ---- experts ---- */

struct round_batch { /* a batch of a round: its rows and groups */
    uint32_t first, count, first_group, group_count;
    const uint32_t *live; /* number of live rows, in device memory; NULL: all */
};

struct expert_round {
    const struct pass *pass;
    const struct exchange_received *received;
    uint32_t first_row;    /* index among the received rows */
    uint32_t rows, groups; /* taken into the round */
    uint32_t next_group;   /* the first received group that does not end in this round or before */
    struct round_batch expert_batches[ROUND_EXPERT_BATCHES];
    uint32_t expert_batch_count;
};

static void end_expert_batch(struct expert_round *round) {
    struct round_batch expert_batch = {0};
    if (round->expert_batch_count) {
        const struct round_batch *last = &round->expert_batches[round->expert_batch_count - 1];
        expert_batch.first = last->first + last->count;
        expert_batch.first_group = last->first_group + last->group_count;
    }
    expert_batch.count = round->rows - expert_batch.first;
    expert_batch.group_count = round->groups - expert_batch.first_group;
    if (!expert_batch.count) return;
    check(round->expert_batch_count < ROUND_EXPERT_BATCHES);
    round->expert_batches[round->expert_batch_count++] = expert_batch;
}

/* Looks up the addresses of rows and of their results from their descriptors: `count` received rows
 * of a group from `first` on, which become the round's rows from `row` on. */
static void locate_rows(const struct expert_round *round, const struct exchange_group *group,
                        uint32_t first, uint32_t count, uint32_t row) {
    const struct model *model = round->pass->model;
    struct gpu_exchange *x = of_pass(round->pass);
    const struct exchange_received *received = round->received;
    uint32_t expert =
        placement_of_rank(&model->placement, round->pass->layer, model->rank)[group->slot];
    for (uint32_t i = 0; i < count; i++) {
        const char *row_descriptor = received->token_data[received->row_token[first + i]];
        struct gpu_peer_buffers buffers =
            gpu_peers_buffers(x->peers, gpu_peers_row_descriptor_rank(row_descriptor));
        size_t at = gpu_peers_row_descriptor_row(row_descriptor);
        size_t pair = at * x->per_token +
                      gpu_peers_row_descriptor_place(row_descriptor, expert, x->per_token);
        x->row_from_host[row + i] = buffers.rows + at * x->dispatch_bytes;
        x->row_to_host[row + i] = buffers.results + pair * x->combine_bytes;
    }
}

/* Takes as many of the next rows as fit. False: no rows are left. */
static bool next_round(struct expert_round *round) {
    const struct model *model = round->pass->model;
    struct gpu_exchange *x = of_pass(round->pass);
    uint32_t first_slot = compute_weights(round->pass)->first_slot;
    round->first_row += round->rows;
    round->rows = round->groups = round->expert_batch_count = 0;
    while (round->next_group < round->received->group_count && round->rows < x->round_rows) {
        const struct exchange_group *group = &round->received->groups[round->next_group];
        uint32_t done = round->first_row + round->rows - group->first_row;
        uint32_t left = group->row_count - done, room = x->round_rows - round->rows;
        uint32_t count = gpu_exchange_least(left, room);
        x->groups_host[round->groups++] =
            (struct gpu_group){.first_row = round->rows,
                               .row_count = count,
                               .slot = weights_place(&model->weights, first_slot + group->slot)};
        if (x->peers) locate_rows(round, group, group->first_row + done, count, round->rows);
        round->rows += count;
        if (count < left) break;
        round->next_group++;
        if (group->results_leave) end_expert_batch(round);
    }
    end_expert_batch(round);
    return round->rows != 0;
}

struct round_rows {
    const struct expert_round *round;
    uint32_t first; /* index in the round */
};

static void load_received(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct round_rows *rows = context;
    const struct exchange_received *received = rows->round->received;
    struct gpu_exchange *x = of_pass(rows->round->pass);
    for (uint32_t row = rows->first + first; row < rows->first + first + count; row++)
        memcpy(x->received_host + row * x->dispatch_bytes,
               received->token_data[received->row_token[rows->round->first_row + row]],
               x->dispatch_bytes);
}

static void store_results(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct round_rows *rows = context;
    struct gpu_exchange *x = of_pass(rows->round->pass);
    for (uint32_t row = rows->first + first; row < rows->first + first + count; row++)
        memcpy(exchange_result(rows->round->pass->exchange, rows->round->first_row + row),
               x->results_host + row * x->combine_bytes, x->combine_bytes);
}

/* Unpacks the batch's rows to the experts' inputs. */
static void gpu_exchange_unpack(const struct pass *pass, const struct round_batch *expert_batch) {
    struct gpu_state *state = pass->model->gpu;
    struct gpu_exchange *x = of_pass(pass);
    char *rows =
        x->descriptors ? x->outgoing : x->received + expert_batch->first * x->dispatch_bytes;
    const struct gpu_rows *to = &state->expert_input;
    struct packed from = packed_at(pass, rows);
    struct gpu_gather unpacked = {
        .from = x->descriptors ? NULL : rows,
        .from_scales = x->descriptors ? NULL : from.scales,
        .from_rows = x->descriptors ? x->row_from + expert_batch->first : NULL,
        .scales_at = (uint32_t)exchange_rows_scales_at(pass->model->shape->hidden),
        .to = to->data + (size_t)expert_batch->first * to->pitch,
        .to_scales = to->scales + expert_batch->first,
        .live = expert_batch->live,
        .from_format = from.format,
        .to_format = gpu_row_format_of(to, gpu_layers_routed_kind(pass)),
        .n = pass->model->shape->hidden,
        .rows = expert_batch->count,
        .live_each = 1,
        .from_scale_step = from.scale_step,
        .to_scale_step = 1};
    gpu_launch(state, gpu_micro_batch_of(pass)->stream, gather, unpacked);
}

/* Writes the batch's results to the memory of the tokens' ranks. */
static void gpu_exchange_send_results(const struct pass *pass,
                                      const struct round_batch *expert_batch) {
    struct gpu_exchange *x = of_pass(pass);
    struct gpu_row_format format = {result_kind(pass->model), (uint32_t)x->combine_bytes, 1};
    struct gpu_gather given = {.from = x->results + expert_batch->first * x->combine_bytes,
                               .live = expert_batch->live,
                               .to_rows = x->row_to + expert_batch->first,
                               .from_format = format,
                               .to_format = format,
                               .n = pass->model->shape->hidden,
                               .rows = expert_batch->count,
                               .live_each = 1};
    gpu_launch(pass->model->gpu, gpu_micro_batch_of(pass)->stream, gather, given);
}

/* Copies the batch's rows to the device if they pass through the host. */
static void upload_expert_batch(const struct expert_round *round,
                                const struct round_batch *expert_batch) {
    const struct pass *pass = round->pass;
    struct gpu_exchange *x = of_pass(pass);
    struct round_rows rows = {round, expert_batch->first};
    size_t at = expert_batch->first * x->dispatch_bytes;
    if (x->descriptors) return;
    token_loop_run(pass->model, load_received, &rows, expert_batch->count);
    pass_part(pass, STAGE_PART_COUNT); /* not counted: copies within the host */
    gpu_exchange_copy(pass, x->received + at, x->received_host + at,
                      expert_batch->count * x->dispatch_bytes, DEVICE_FROM_HOST);
}

/* Enqueues a batch, from its rows on the device to the places of its results. No argument depends
 * on the layer. */
static void enqueue_expert_batch(const struct pass *pass, const struct round_batch *expert_batch) {
    const struct model *model = pass->model;
    struct gpu_state *state = model->gpu;
    struct gpu_exchange *x = of_pass(pass);
    gpu_exchange_unpack(pass, expert_batch);
    pass_part(pass, PART_EXPERT_INPUT);
    const struct gpu_pairs pairs = {.first = expert_batch->first,
                                    .count = expert_batch->count,
                                    .groups = x->groups + expert_batch->first_group,
                                    .group_count = expert_batch->group_count,
                                    .live = expert_batch->live,
                                    .live_each = 1,
                                    .slots = model->weights.own.memory,
                                    .slot_count =
                                        model->weights.slot_count + model->weights.spare_count};
    gpu_layers_experts_multiply(pass, &pairs);
    gpu_exchange_pack_results(model, gpu_micro_batch_of(pass)->stream,
                              state->expert_y + (size_t)expert_batch->first * state->hidden_stride,
                              state->hidden_stride,
                              x->results + expert_batch->first * x->combine_bytes,
                              expert_batch->count, expert_batch->live);
    if (x->descriptors) gpu_exchange_send_results(pass, expert_batch);
}

/* Ends a batch; copies its results to the host if they pass through it. */
static void finish_expert_batch(const struct pass *pass, const struct round_batch *expert_batch,
                                uint32_t index) {
    struct gpu_exchange *x = of_pass(pass);
    size_t at = expert_batch->first * x->combine_bytes;
    if (!x->descriptors)
        gpu_exchange_copy(pass, x->results_host + at, x->results + at,
                          expert_batch->count * x->combine_bytes, DEVICE_TO_HOST);
    pass_part(pass, PART_EXPERT_RESULT);
    device_record(pass->model->device, x->computed[index], gpu_micro_batch_of(pass)->stream);
}

/* Copies the round's lists to the device. */
static void copy_lists(const struct pass *pass, uint32_t groups, uint32_t places) {
    const struct gpu_exchange *x = of_pass(pass);
    size_t of_groups = groups * sizeof *x->groups, of_places = places * sizeof(char *);
    struct device_copy lists = {
        .to = x->lists,
        .from = x->lists_host,
        .to_pitch = x->list_pitch,
        .from_pitch = x->list_pitch,
        .row_bytes = of_groups > of_places || x->list_count == 1 ? of_groups : of_places,
        .row_count = x->list_count,
        .direction = DEVICE_FROM_HOST};
    device_copy_rows(pass->model->device, gpu_micro_batch_of(pass)->stream, &lists);
}

/* Describes the round as one batch with upper bounds of its rows and slots, for a graph. False: no
 * graph can be used. */
static bool bound_round(const struct expert_round *round, struct round_batch *bounds_out) {
    struct gpu_exchange *x = of_pass(round->pass);
    if (round->expert_batch_count != 1) return false;
    uint32_t rows = gpu_graphs_rows(round->pass->model, round->rows, x->round_rows);
    *bounds_out = (struct round_batch){
        .count = rows, .group_count = x->slots, .live = &x->groups[x->slots].row_count};
    if (!rows) return false;
    memset(x->groups_host + round->groups, 0, (x->slots - round->groups) * sizeof *x->groups_host);
    x->groups_host[x->slots] = (struct gpu_group){.row_count = round->rows};
    return true;
}

/* Enqueues the round's only batch by a graph, or captures it. */
static void enqueue_bounded(const struct pass *pass, const struct round_batch *bounds) {
    struct gpu_exchange *x = of_pass(pass);
    uint32_t micro_batch = (uint32_t)gpu_micro_batch_number(pass);
    if (gpu_graphs_begin_rows(pass->model, micro_batch, bounds->count)) return;
    if (!x->comm) copy_lists(pass, x->slots + 1, bounds->count);
    enqueue_expert_batch(pass, bounds);
    gpu_graphs_end_rows(pass->model, micro_batch, bounds->count);
}

/* All batches are enqueued before the host waits for the first. */
static void gpu_exchange_run_round(const struct expert_round *round) {
    const struct pass *pass = round->pass;
    struct gpu_exchange *x = of_pass(pass);
    struct round_batch bounds;
    bool bounded = bound_round(round, &bounds);
    if (!bounded) copy_lists(pass, round->groups, round->rows);
    for (uint32_t i = 0; i < round->expert_batch_count; i++) {
        const struct round_batch *expert_batch = &round->expert_batches[i];
        upload_expert_batch(round, expert_batch);
        if (bounded)
            enqueue_bounded(pass, &bounds);
        else
            enqueue_expert_batch(pass, expert_batch);
        finish_expert_batch(pass, expert_batch, i);
    }
    for (uint32_t i = 0; i < round->expert_batch_count; i++) {
        const struct round_batch *expert_batch = &round->expert_batches[i];
        struct round_rows rows = {round, expert_batch->first};
        gpu_exchange_await(pass, x->computed[i]);
        if (!x->descriptors) token_loop_run(pass->model, store_results, &rows, expert_batch->count);
        exchange_combine_begin(pass->exchange, round->first_row + expert_batch->first,
                               expert_batch->count);
    }
}

/* ---- with communicators ---- */

static struct device_event **comm_done_of(const struct pass *pass) {
    return &of_pass(pass)->comm_done[gpu_micro_batch_number(pass)];
}

static const char *row_descriptor_of(const struct exchange_received *received, uint32_t row) {
    return received->token_data[received->row_token[row]];
}

/* The largest number of rows received from one rank. */
static uint32_t most_of_a_rank(const struct gpu_exchange *x, uint32_t ranks,
                               const struct exchange_received *received) {
    uint32_t most = 0;
    memset(x->counts, 0, ranks * sizeof *x->counts);
    for (uint32_t row = 0; row < received->row_count; row++) {
        uint32_t *count =
            &x->counts[gpu_peers_row_descriptor_rank(row_descriptor_of(received, row))];
        if (++*count > most) most = *count;
    }
    return most;
}

/* Takes the chunks of this round from all received rows, as one batch. */
static void take_chunks(struct expert_round *round) {
    const struct model *model = round->pass->model;
    struct gpu_exchange *x = of_pass(round->pass);
    const struct exchange_received *received = round->received;
    uint32_t first_slot = compute_weights(round->pass)->first_slot;
    round->rows = round->groups = round->expert_batch_count = 0;
    for (uint32_t i = 0; i < received->group_count; i++) {
        const struct exchange_group *group = &received->groups[i];
        uint32_t first = round->rows;
        for (uint32_t row = group->first_row; row < group->first_row + group->row_count; row++) {
            round->rows +=
                gpu_comm_locate(x->comm, row_descriptor_of(received, row),
                                &x->row_from_host[round->rows], &x->row_to_host[round->rows]);
        }
        if (round->rows == first) continue;
        x->groups_host[round->groups++] =
            (struct gpu_group){.first_row = first,
                               .row_count = round->rows - first,
                               .slot = weights_place(&model->weights, first_slot + group->slot)};
    }
    end_expert_batch(round);
}

/* Enqueues all rounds. The host waits only until the previous round's lists have been read. It
 * announces results when they are enqueued; the receiver waits for its own transfers. */
static void run_by_comm(struct expert_round *round) {
    const struct pass *pass = round->pass;
    const struct model *model = pass->model;
    struct gpu_exchange *x = of_pass(pass);
    struct device_stream *stream = gpu_micro_batch_of(pass)->stream;
    uint32_t most = most_of_a_rank(x, model->placement.ranks, round->received);
    uint32_t *places = x->rows_host + (size_t)gpu_micro_batch_of(pass)->row * x->per_token;
    uint32_t rounds = gpu_comm_begin(x->comm, pass, most, places);
    struct round_batch bounds;
    if (x->last && x->last->stream != stream)
        device_stream_wait_event(model->device, stream,
                                 x->comm_done[x->last->tile / GPU_ABSORB_TILE]);
    x->last = gpu_micro_batch_of(pass);
    for (uint32_t i = 0; i < rounds; i++) {
        await_others(pass, x->lists_read);
        gpu_comm_list_rows(x->comm, pass, i);
        take_chunks(round);
        bool bounded = bound_round(round, &bounds);
        copy_lists(pass, bounded ? x->slots + 1 : round->groups,
                   gpu_exchange_larger(round->rows, gpu_comm_outgoing(x->comm)));
        device_record(model->device, x->lists_read, stream);
        gpu_comm_send_rows(x->comm, pass);
        if (bounded)
            enqueue_bounded(pass, &bounds);
        else if (round->expert_batch_count)
            enqueue_expert_batch(pass, &round->expert_batches[0]);
        pass_part(pass, PART_EXPERT_RESULT);
        gpu_comm_send_results(x->comm, pass);
    }
    device_record(model->device, *comm_done_of(pass), stream);
    if (round->received->row_count)
        exchange_combine_begin(pass->exchange, 0, round->received->row_count);
}

void gpu_exchange_run_routed(const struct pass *pass) {
    struct exchange_received received;
    struct expert_round round = {.pass = pass, .received = &received};
    uint32_t *slot_tokens = pass->model->slot_tokens + compute_weights(pass)->first_slot;
    gpu_graphs_stop(pass->model);
    exchange_dispatch_finish(pass->exchange, &received);
    for (uint32_t i = 0; i < received.group_count; i++)
        slot_tokens[received.groups[i].slot] += received.groups[i].row_count;
    if (pass->model->gpu->exchange->comm) {
        run_by_comm(&round);
        return;
    }
    while (next_round(&round))
        gpu_exchange_run_round(&round);
}

/* ---- returned results ---- */

struct returned_rows {
    const struct gpu_exchange *exchange;
    char *to;
    const char *from;
};

static void copy_returned(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct returned_rows *of = context;
    size_t bytes = of->exchange->combine_bytes, at = first * bytes;
    memcpy(of->to + at, of->from + at, count * bytes);
}

/* Copies rows to the device, one half of the page-locked memory at a time: the host fills one half
 * while the other is copied. */
static void upload_returned(const struct pass *pass, char *to, const char *from, uint32_t rows) {
    struct gpu_exchange *x = of_pass(pass);
    for (uint32_t first = 0; first < rows; first += x->returned_rows) {
        uint32_t half = x->next_half, count = gpu_exchange_least(rows - first, x->returned_rows);
        size_t at = first * x->combine_bytes;
        struct returned_rows of = {x, x->returned_host + half * x->returned_rows * x->combine_bytes,
                                   from + at};
        gpu_exchange_await(pass, x->half_copied[half]);
        token_loop_run(pass->model, copy_returned, &of, count);
        gpu_exchange_copy(pass, to + at, of.to, count * x->combine_bytes, DEVICE_FROM_HOST);
        device_record(pass->model->device, x->half_copied[half], gpu_micro_batch_of(pass)->stream);
        x->next_half = !half;
    }
}

/* Copies the micro-batch's results to the device, and notes the row of each pair. */
static void upload_results(const struct pass *pass, const struct exchange_returned *returned) {
    struct gpu_exchange *x = of_pass(pass);
    size_t pair = (size_t)gpu_micro_batch_of(pass)->row * x->per_token,
           at = pair * x->combine_bytes;
    uint32_t pairs = pass->batch->token_count * x->per_token, rows = 0;
    memcpy(x->rows_host + pair, returned->token_rows, pairs * sizeof *x->rows_host);
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t row = returned->token_rows[i];
        if (row != EXCHANGE_SUMMED && row >= rows) rows = row + 1;
    }
    check(rows <= pairs);
    upload_returned(pass, x->returned + at, returned->results, rows);
}

/* Notes the row of each pair's result. With peer memory it is the pair's index; with communicators
 * gpu_comm_begin has set it. In a broken job some results never came. */
static void find_returned(const struct pass *pass) {
    struct gpu_exchange *x = of_pass(pass);
    size_t pair = (size_t)gpu_micro_batch_of(pass)->row * x->per_token;
    uint32_t pairs = pass->batch->token_count * x->per_token;
    for (uint32_t i = 0; i < pairs; i++)
        if (job_broken())
            x->rows_host[pair + i] = GPU_NO_PAIR;
        else if (!x->comm)
            x->rows_host[pair + i] = i;
}

/* Enqueues the sums, by the rows in rows_host. */
static void sum_returned(const struct pass *pass) {
    const struct model *model = pass->model;
    struct gpu_state *state = model->gpu;
    struct gpu_exchange *x = of_pass(pass);
    const struct gpu_micro_batch *micro_batch = gpu_micro_batch_of(pass);
    size_t pair = (size_t)micro_batch->row * x->per_token;
    struct gpu_combine sums = {.results = x->returned + pair * x->combine_bytes,
                               .pair_row = state->pair_row + pair,
                               .experts = state->experts + pair,
                               .weights = state->expert_weights + pair,
                               .y = state->y + (size_t)micro_batch->row * state->hidden_stride,
                               .live = micro_batch->live,
                               .pitch = (uint32_t)x->combine_bytes,
                               .y_stride = state->hidden_stride,
                               .n = model->shape->hidden,
                               .tokens = micro_batch->rows,
                               .per_token = x->per_token,
                               .group_experts = model->group_experts,
                               .is_bf16 = model->rounds_bf16,
                               .rounds_bf16 = model->rounds_bf16};
    gpu_exchange_copy(pass, state->pair_row + pair, x->rows_host + pair,
                      (size_t)micro_batch->rows * x->per_token * sizeof *x->rows_host,
                      DEVICE_FROM_HOST);
    gpu_launch(state, micro_batch->stream, combine, sums);
    pass_part(pass, PART_COMBINE);
}

/* The micro-batch's host memory is free again when its rows of the next layer are packed. */
void gpu_exchange_finish(const struct pass *pass) {
    struct gpu_exchange *x = of_pass(pass);
    struct exchange_returned returned;
    gpu_graphs_stop(pass->model);
    exchange_combine_finish(pass->exchange, &returned);
    if (x->comm) await_others(pass, *comm_done_of(pass));
    if (!pass->batch->token_count) return;
    if (x->descriptors)
        find_returned(pass);
    else
        upload_results(pass, &returned);
    if (gpu_micro_batch_enter(pass)) sum_returned(pass);
}

/* ---- partial sums ---- */

struct summing {
    const struct gpu_exchange *exchange;
    const struct exchange_sum *list;
};

static void load_summands(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct summing *of = context;
    const struct gpu_exchange *x = of->exchange;
    for (uint32_t i = first; i < first + count; i++)
        for (uint32_t k = 0; k < of->list[i].count; k++)
            memcpy(x->summands_host + x->sum_rows_host[i * x->per_token + k] * x->combine_bytes,
                   of->list[i].results[k], x->combine_bytes);
}

/* Lists the rows and weights of each sum. Returns the number of rows. */
static uint32_t list_summands(const struct gpu_exchange *x, const struct exchange_sum *list,
                              uint32_t count) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < x->per_token; k++) {
            bool is_there = k < list[i].count;
            x->sum_rows_host[i * x->per_token + k] = is_there ? rows++ : GPU_NO_PAIR;
            x->sum_weights_host[i * x->per_token + k] = is_there ? list[i].weights[k] : 0;
        }
    return rows;
}

/* Computes at most SUMS sums. */
static void gpu_exchange_sum_some(struct model *model, const struct exchange_sum *list,
                                  uint32_t count) {
    struct gpu_state *state = model->gpu;
    struct gpu_exchange *x = state->exchange;
    size_t words = (size_t)count * x->per_token * sizeof(uint32_t);
    struct summing of = {x, list};
    struct error error;
    uint32_t rows = list_summands(x, list, count);
    token_loop_run(model, load_summands, &of, count);
    device_copy(state->device, x->summing, x->summands, x->summands_host, rows * x->combine_bytes,
                DEVICE_FROM_HOST);
    device_copy(state->device, x->summing, x->sum_rows, x->sum_rows_host, words, DEVICE_FROM_HOST);
    device_copy(state->device, x->summing, x->sum_weights, x->sum_weights_host, words,
                DEVICE_FROM_HOST);
    struct gpu_combine sums = {.results = x->summands,
                               .pair_row = x->sum_rows,
                               .weights = x->sum_weights,
                               .y = x->sum_y,
                               .pitch = (uint32_t)x->combine_bytes,
                               .y_stride = state->hidden_stride,
                               .n = model->shape->hidden,
                               .tokens = count,
                               .per_token = x->per_token,
                               .group_experts = model->group_experts,
                               .is_bf16 = model->rounds_bf16,
                               .rounds_bf16 = model->rounds_bf16};
    gpu_launch(state, x->summing, combine, sums);
    gpu_exchange_pack_results(model, x->summing, x->sum_y, state->hidden_stride, x->sums, count,
                              NULL);
    device_copy(state->device, x->summing, x->sums_host, x->sums, count * x->combine_bytes,
                DEVICE_TO_HOST);
    gpu_state_note(state, device_synchronize_stream(state->device, x->summing, &error), &error);
    for (uint32_t i = 0; i < count; i++)
        memcpy(list[i].sum, x->sums_host + i * x->combine_bytes, x->combine_bytes);
}

void gpu_exchange_sum(void *context, const struct exchange_sum *list, uint32_t count) {
    struct model *model = context;
    if (model->gpu->exchange->descriptors)
        return; /* results are in device memory; the tokens' ranks compute the sums */
    for (uint32_t first = 0; first < count; first += SUMS)
        gpu_exchange_sum_some(model, list + first, count - first < SUMS ? count - first : SUMS);
}
