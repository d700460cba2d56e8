/* SPDX-License-Identifier: Apache-2.0
 * A micro-batch's rows that leave, and results that come back, have places of their own from the
 * micro-batch's first row on. Rows that come to be computed share one room, since a micro-batch's
 * results are waited for before the host goes on: as many as fit are a round, and a round's waves
 * end where the exchange has something to send. Results that came back go to the device in pieces,
 * through two halves of page-locked memory.
 *
 * Where devices reach one another (gpu_peers.h), the exchange carries tickets. The kernel that
 * unpacks a wave reads each row where it lies, and another writes each result where its token wants
 * it; sums are made there, of all results, and none on their way. Between hosts, links
 * (gpu_links.h) bring a round's rows to where that kernel reads, and take its results from where
 * this one writes; the host then waits for a micro-batch's groups in its last stage alone.
 */
#include "compute/gpu/gpu_exchange.h"

#include "base/check.h"
#include "base/heartbeat.h"
#include "compute/exchange/exchange.h"
#include "compute/exchange/job.h"
#include "compute/gpu/gpu_graphs.h"
#include "compute/gpu/gpu_layers.h"
#include "compute/gpu/gpu_links.h"
#include "compute/gpu/gpu_peers.h"
#include "compute/model/token_loop.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ROUND_EXPERT_BATCHES                                                                       \
    (EXCHANGE_EXPERT_BATCHES +                                                                     \
     1)              /* the exchange names the ends of EXCHANGE_EXPERT_BATCHES at most */
#define SUMS 128     /* of groups, made at a time */
#define RETURNED 256 /* results that came back, in half the memory between */
#define REST_NS                                                                                    \
    ((int64_t)50000) /* at a time, of a rank that waits for its device and lacks a CPU */

static_assert(GPU_SUMMED == EXCHANGE_SUMMED, "the device's kernels know what the exchange says");

struct gpu_exchange {
    uint32_t per_token, room_rows;
    size_t dispatch_bytes, combine_bytes;
    /* By micro-batches' rows; those on the host are page-locked. */
    char *outgoing, *outgoing_host;     /* [rows_max][dispatch_bytes] */
    uint32_t *experts_host, *rows_host; /* [rows_max][per_token]; rows: of results that came back */
    float *weights_host;                /* [rows_max][per_token] */
    char *returned;                     /* [rows_max][per_token][combine_bytes] */
    char *returned_host;                /* [2][returned_rows][combine_bytes] */
    uint32_t returned_rows, next_half;
    struct device_event *half_left[2]; /* its last copy is done */
    /* The micro-batch that computes its experts: */
    char *received, *received_host; /* [room_rows][dispatch_bytes] */
    char *results, *results_host;   /* [room_rows][combine_bytes] */
    struct gpu_group *groups,
        *groups_host; /* [slots + 1] of this rank in a layer; the last: of all rows */
    uint32_t slots;
    char *lists,
        *lists_host; /* [list_count][list_pitch]: groups, row_from, row_to, links' leaves */
    size_t list_pitch;
    uint32_t list_count;
    struct device_event *computed[ROUND_EXPERT_BATCHES];
    /* Where rows go from device to device; else NULL: */
    struct gpu_peers *peers;
    struct gpu_links *links;
    struct device_event *listed; /* by links: the last round's lists are read */
    struct device_event
        *given[OVERLAP_MICRO_BATCHES]; /* all groups of the micro-batch's last stage are over */
    const struct gpu_micro_batch
        *last;        /* its last user: the room is free when that is done. NULL: none */
    uint32_t *counts; /* [ranks] */
    char *tickets;    /* [rows_max][dispatch_bytes of the exchange] */
    const char **row_from, **row_from_host; /* [room_rows] where a row of the room lies */
    char **row_to, **row_to_host;           /* [room_rows] and where its result goes */
    /* Partial sums: */
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

static void *take_host(struct gpu_taker *taker, size_t bytes, const char *what) {
    return gpu_state_take(taker, bytes, true, what);
}

static void *take_there(struct gpu_taker *taker, size_t bytes, const char *what) {
    return gpu_state_take(taker, bytes, false, what);
}

/* Takes memory for rows and results that go through the host. */
static void take_passage(struct gpu_taker *taker, uint32_t rows_max) {
    struct gpu_exchange *x = taker->state->exchange;
    size_t outgoing = rows_max * x->dispatch_bytes, received = x->room_rows * x->dispatch_bytes;
    size_t returned = (size_t)rows_max * x->per_token * x->combine_bytes;
    size_t halves = 2 * x->returned_rows * x->combine_bytes;
    x->outgoing = take_there(taker, outgoing, "rows to other ranks' experts");
    x->outgoing_host = take_host(taker, outgoing, "rows to other ranks' experts, on the host");
    x->returned = take_there(taker, returned, "results that came back");
    x->returned_host = take_host(taker, halves, "results that came back, on the host");
    x->received = take_there(taker, received, "rows that came to experts");
    x->received_host = take_host(taker, received, "rows that came to experts, on the host");
    x->results_host =
        take_host(taker, x->room_rows * x->combine_bytes, "results to other ranks, on the host");
}

/* Takes memory for rows and results that go from device to device. */
static void take_rooms(struct gpu_taker *taker, uint32_t rows_max) {
    struct gpu_exchange *x = taker->state->exchange;
    size_t results = (size_t)rows_max * x->per_token * x->combine_bytes;
    x->outgoing = gpu_state_take_shared(taker, rows_max * x->dispatch_bytes, "rows to other ranks");
    x->returned = gpu_state_take_shared(taker, results, "results from other ranks");
}

/* The lists of a round go to the device in one copy, a list in each row. */
static void gpu_exchange_take_lists(struct gpu_taker *taker, uint32_t slots, uint32_t leaves) {
    struct gpu_exchange *x = taker->state->exchange;
    size_t groups = (slots + 1) * sizeof *x->groups;
    size_t places = gpu_exchange_larger(x->room_rows, leaves) * sizeof(char *);
    x->slots = slots;
    x->list_count = taker->state->way == GPU_BY_HOST ? 1 : leaves ? 4 : 3;
    x->list_pitch = round_up(groups > places ? groups : places, 16);
    x->lists = take_there(taker, x->list_count * x->list_pitch, "lists of rows that came");
    x->lists_host =
        take_host(taker, x->list_count * x->list_pitch, "lists of rows that came, on the host");
    x->groups = (struct gpu_group *)(void *)x->lists;
    x->groups_host = (struct gpu_group *)(void *)x->lists_host;
    if (taker->status || x->list_count == 1) return;
    x->row_from = (const char **)(void *)(x->lists + x->list_pitch);
    x->row_from_host = (const char **)(void *)(x->lists_host + x->list_pitch);
    x->row_to = (char **)(void *)(x->lists + 2 * x->list_pitch);
    x->row_to_host = (char **)(void *)(x->lists_host + 2 * x->list_pitch);
}

static void gpu_exchange_take_rows(struct gpu_taker *taker, uint32_t rows_max) {
    struct gpu_exchange *x = taker->state->exchange;
    size_t words = (size_t)rows_max * x->per_token * sizeof(uint32_t);
    size_t results = x->room_rows * x->combine_bytes;
    x->experts_host = take_host(taker, words, "choices of experts, on the host");
    x->weights_host = take_host(taker, words, "experts' weights, on the host");
    x->rows_host = take_host(taker, words, "pairs' rows, on the host");
    x->results = take_there(taker, results, "results to other ranks");
}

static void gpu_exchange_take_sums(struct gpu_taker *taker, uint32_t hidden_stride) {
    struct gpu_exchange *x = taker->state->exchange;
    size_t rows = (size_t)SUMS * x->per_token * x->combine_bytes, sums = SUMS * x->combine_bytes;
    size_t words = (size_t)SUMS * x->per_token * sizeof(uint32_t);
    x->summands = take_there(taker, rows, "results to be summed");
    x->summands_host = take_host(taker, rows, "results to be summed, on the host");
    x->sum_rows = take_there(taker, words, "rows to be summed");
    x->sum_rows_host = take_host(taker, words, "rows to be summed, on the host");
    x->sum_weights = take_there(taker, words, "weights of a sum");
    x->sum_weights_host = take_host(taker, words, "weights of a sum, on the host");
    x->sum_y = take_there(taker, SUMS * hidden_stride * sizeof(float), "sums, as floats");
    x->sums = take_there(taker, sums, "sums");
    x->sums_host = take_host(taker, sums, "sums, on the host");
}

/* By links, ranks' groups have to come in one order. */
static enum status open_links(struct model *model, struct gpu_taker *taker, struct error *error) {
    struct gpu_state *state = model->gpu;
    struct gpu_exchange *x = state->exchange;
    uint32_t ranks = model->placement.ranks;
    const struct gpu_links_rooms rooms = {
        .rows = x->outgoing,
        .results = x->returned,
        .row_bytes = x->dispatch_bytes,
        .result_bytes = x->combine_bytes,
        .leaves = (const char **)(void *)(x->lists + 3 * x->list_pitch),
        .leaves_host = (const char **)(void *)(x->lists_host + 3 * x->list_pitch)};
    model->fixed_order = true;
    x->counts = calloc(ranks, sizeof *x->counts);
    if (!x->counts) return error_set(error, STATUS_NO_MEMORY, "no memory to count rows");
    enum status status = device_open_event(state->device, &x->listed, error);
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES && !status; i++)
        status = device_open_event(state->device, &x->given[i], error);
    if (status) return status;
    return gpu_links_open(model, taker, &rooms, x->room_rows / ranks, &x->links, error);
}

/* The exchange carries tickets; of a result nothing but that it is there. */
static enum status open_tickets(struct model *model, struct gpu_taker *taker, struct error *error) {
    struct gpu_state *state = model->gpu;
    struct gpu_exchange *x = state->exchange;
    const struct gpu_rooms own = {x->outgoing, x->returned};
    model->dispatch_bytes = (uint32_t)gpu_peers_row_descriptor_bytes(x->per_token);
    model->combine_bytes = EXCHANGE_ALIGN;
    x->tickets = calloc(state->rows_max, model->dispatch_bytes);
    if (!x->tickets) return error_set(error, STATUS_NO_MEMORY, "no memory for rows' tickets");
    if (state->way == GPU_BY_LINKS) return open_links(model, taker, error);
    return gpu_peers_open(state->device, model->placement.ranks, model->rank, &own, &x->peers,
                          error);
}

enum status gpu_exchange_open(struct model *model, struct error *error) {
    const struct shape *shape = model->shape;
    struct gpu_state *state = model->gpu;
    struct gpu_exchange *x = state->exchange = calloc(1, sizeof *x);
    if (!x) return error_set(error, STATUS_NO_MEMORY, "no memory for the device's exchange");
    struct gpu_taker taker = {.state = state, .error = error};
    x->per_token = shape->experts_per_token;
    x->room_rows = gpu_state_expert_rows(model);
    x->returned_rows = gpu_exchange_least(state->rows_max * shape->experts_per_token, RETURNED);
    x->dispatch_bytes = exchange_rows_bytes(model->dispatch_form, shape->hidden);
    x->combine_bytes = exchange_rows_bytes(model->combine_form, shape->hidden);
    bool reach = state->way != GPU_BY_HOST;
    bool by_links = state->way == GPU_BY_LINKS;
    gpu_exchange_take_lists(
        &taker, model->placement.slots_per_rank,
        by_links ? gpu_links_leaves(model, x->room_rows / model->placement.ranks) : 0);
    gpu_exchange_take_rows(&taker, state->rows_max);
    (reach ? take_rooms : take_passage)(&taker, state->rows_max);
    if (reach && !taker.status) taker.status = open_tickets(model, &taker, error);
    if (model->group_experts && !reach) gpu_exchange_take_sums(&taker, state->hidden_stride);
    if (taker.status == STATUS_OK)
        taker.status = device_open_stream(state->device, &x->summing, error);
    for (uint32_t i = 0; i < ROUND_EXPERT_BATCHES && !taker.status; i++)
        taker.status = device_open_event(state->device, &x->computed[i], error);
    for (uint32_t i = 0; i < 2 && !taker.status; i++)
        taker.status = device_open_event(state->device, &x->half_left[i], error);
    return taker.status;
}

void gpu_exchange_close(struct model *model) {
    struct gpu_state *state = model->gpu;
    if (!state || !state->exchange) return;
    struct gpu_exchange *x = state->exchange;
    for (uint32_t i = 0; i < ROUND_EXPERT_BATCHES; i++)
        device_close_event(state->device, x->computed[i]);
    for (uint32_t i = 0; i < 2; i++)
        device_close_event(state->device, x->half_left[i]);
    device_close_stream(state->device, x->summing);
    gpu_peers_close(x->peers);
    gpu_links_close(x->links);
    for (uint32_t i = 0; i < OVERLAP_MICRO_BATCHES; i++)
        device_close_event(state->device, x->given[i]);
    device_close_event(state->device, x->listed);
    free(x->counts);
    free(x->tickets);
    free(x);
    state->exchange = NULL;
}

void gpu_exchange_meet(struct model *model) {
    struct gpu_exchange *x = model->gpu->exchange;
    struct error error;
    if (x && x->peers) gpu_state_note(model->gpu, gpu_peers_meet(x->peers, &error), &error);
    if (x && x->links) gpu_links_meet(x->links);
}

/* ---- what all stages do ---- */

static struct gpu_exchange *of_pass(const struct pass *pass) {
    return pass->model->gpu->exchange;
}

static void gpu_exchange_copy(const struct pass *pass, void *to, const void *from, size_t bytes,
                              enum device_way way) {
    device_copy(pass->model->device, gpu_micro_batch_of(pass)->stream, to, from, bytes, way);
}

/* Returns when the event has passed; meanwhile what travels moves on. What stands behind a group of
 * a link never passes once a rank has died, unless the link is closed; and where ranks outnumber
 * CPUs, others' groups need this one. */
static void gpu_exchange_await(const struct pass *pass, struct device_event *event) {
    struct gpu_state *state = pass->model->gpu;
    struct error error;
    uint32_t looks = 0;
    while (!device_passed(state->device, event)) {
        pass_progress(pass);
        if (!state->exchange->links) continue;
        gpu_links_look(state->exchange->links);
        job_backoff(&looks, REST_NS);
    }
    gpu_state_note(state, device_wait(state->device, event, &error), &error);
}

/* An event behind groups of links waits for other ranks; the health table says so. */
static void await_others(const struct pass *pass, struct device_event *event) {
    heartbeat_set(HEARTBEAT_WAITS);
    gpu_exchange_await(pass, event);
    heartbeat_set(HEARTBEAT_COMPUTES);
}

/* Where rows lie as the exchange carries them, from `rows` on; their scales, if any, behind each
 * row's codes. */
struct packed {
    float *scales;
    struct gpu_form form;
    uint32_t scale_step;
};

static struct packed packed_at(const struct pass *pass, char *rows) {
    size_t bytes = of_pass(pass)->dispatch_bytes;
    size_t scales_at = exchange_rows_scales_at(pass->model->shape->hidden);
    return (struct packed){.scales = (float *)(void *)(rows + scales_at),
                           .form = {gpu_layers_routed_kind(pass), (uint32_t)bytes, 1},
                           .scale_step = (uint32_t)(bytes / sizeof(float))};
}

/* How a result, or a sum of some, is carried. */
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

/* The micro-batch's rows are packed; its tokens' experts and their weights come to the host. */
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
                              .from_form = gpu_form_of(&from, gpu_layers_routed_kind(pass)),
                              .to_form = to.form,
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

/* Copies the rows to the device if they went through the host. */
static void bring_rows(const struct pass *pass) {
    struct gpu_exchange *x = of_pass(pass);
    const struct gpu_micro_batch *micro_batch = gpu_micro_batch_of(pass);
    size_t at = micro_batch->row * x->dispatch_bytes;
    if (gpu_micro_batch_enter(pass)) gpu_exchange_pack_rows(pass);
    gpu_graphs_stop(pass->model);
    if (!x->tickets)
        gpu_exchange_copy(pass, x->outgoing_host + at, x->outgoing + at,
                          pass->batch->token_count * x->dispatch_bytes, DEVICE_TO_HOST);
    pass_part(pass, PART_SEND);
    device_record(pass->model->device, micro_batch->done, micro_batch->stream);
    gpu_exchange_await(pass, micro_batch->done);
}

/* A device that has failed tells it at the step's end. Until then the rank takes part, as others
 * wait for it, with choices that are some. */
static void choose_any(const struct pass *pass, uint32_t *experts) {
    uint32_t per_token = of_pass(pass)->per_token;
    for (uint32_t i = 0; i < pass->batch->token_count * per_token; i++)
        experts[i] = i % per_token;
}

/* Writes the row descriptors of the micro-batch's tokens; returns the first. */
static const char *write_tickets(const struct pass *pass) {
    const struct model *model = pass->model;
    struct gpu_exchange *x = of_pass(pass);
    uint32_t first = gpu_micro_batch_of(pass)->row;
    for (uint32_t i = 0; i < pass->batch->token_count; i++)
        gpu_peers_row_descriptor_write(
            x->tickets + (size_t)(first + i) * model->dispatch_bytes, model->rank, first + i,
            x->experts_host + (size_t)(first + i) * x->per_token, x->per_token);
    return x->tickets + (size_t)first * model->dispatch_bytes;
}

void gpu_exchange_dispatch(const struct pass *pass) {
    struct gpu_exchange *x = of_pass(pass);
    uint32_t row = gpu_micro_batch_of(pass)->row, tokens = pass->batch->token_count;
    size_t pair = (size_t)row * x->per_token;
    if (tokens) bring_rows(pass);
    if (pass->model->gpu->status != STATUS_OK) choose_any(pass, x->experts_host + pair);
    exchange_dispatch_begin(
        pass->exchange, pass->layer, x->experts_host + pair, x->weights_host + pair, tokens,
        x->tickets ? write_tickets(pass) : x->outgoing_host + row * x->dispatch_bytes);
}

/* ---- experts of rows that came ---- */

struct room_expert_batch { /* rows and groups of the room */
    uint32_t first, count, first_group, group_count;
    const uint32_t *live; /* on the device, how many of the rows there are; NULL: all */
};

struct room_round {
    const struct pass *pass;
    const struct exchange_received *received;
    uint32_t first_row;    /* of those received */
    uint32_t rows, groups; /* of the room that are taken */
    uint32_t
        next_group; /* of those received: the first that is not whole in this round or before */
    struct room_expert_batch expert_batches[ROUND_EXPERT_BATCHES];
    uint32_t expert_batch_count;
};

static void end_expert_batch(struct room_round *round) {
    struct room_expert_batch expert_batch = {0};
    if (round->expert_batch_count) {
        const struct room_expert_batch *last =
            &round->expert_batches[round->expert_batch_count - 1];
        expert_batch.first = last->first + last->count;
        expert_batch.first_group = last->first_group + last->group_count;
    }
    expert_batch.count = round->rows - expert_batch.first;
    expert_batch.group_count = round->groups - expert_batch.first_group;
    if (!expert_batch.count) return;
    check(round->expert_batch_count < ROUND_EXPERT_BATCHES);
    round->expert_batches[round->expert_batch_count++] = expert_batch;
}

/* Where rows of the room lie, and where their results go, by their tickets: those received from
 * `first` on, `count` of that group, which become rows of the room from `row` on. */
static void find_rows(const struct room_round *round, const struct exchange_group *group,
                      uint32_t first, uint32_t count, uint32_t row) {
    const struct model *model = round->pass->model;
    struct gpu_exchange *x = of_pass(round->pass);
    const struct exchange_received *received = round->received;
    uint32_t expert =
        placement_of_rank(&model->placement, round->pass->layer, model->rank)[group->slot];
    for (uint32_t i = 0; i < count; i++) {
        const char *row_descriptor = received->token_data[received->row_token[first + i]];
        struct gpu_rooms rooms =
            gpu_peers_rooms(x->peers, gpu_peers_row_descriptor_rank(row_descriptor));
        size_t at = gpu_peers_row_descriptor_row(row_descriptor);
        size_t pair = at * x->per_token +
                      gpu_peers_row_descriptor_place(row_descriptor, expert, x->per_token);
        x->row_from_host[row + i] = rooms.rows + at * x->dispatch_bytes;
        x->row_to_host[row + i] = rooms.results + pair * x->combine_bytes;
    }
}

/* Takes the next rows, as many as there is room for. False: none are left. */
static bool next_round(struct room_round *round) {
    const struct model *model = round->pass->model;
    struct gpu_exchange *x = of_pass(round->pass);
    uint32_t first_slot = compute_weights(round->pass)->first_slot;
    round->first_row += round->rows;
    round->rows = round->groups = round->expert_batch_count = 0;
    while (round->next_group < round->received->group_count && round->rows < x->room_rows) {
        const struct exchange_group *group = &round->received->groups[round->next_group];
        uint32_t done = round->first_row + round->rows - group->first_row;
        uint32_t left = group->row_count - done, room = x->room_rows - round->rows;
        uint32_t count = gpu_exchange_least(left, room);
        x->groups_host[round->groups++] =
            (struct gpu_group){.first_row = round->rows,
                               .row_count = count,
                               .slot = weights_place(&model->weights, first_slot + group->slot)};
        if (x->peers) find_rows(round, group, group->first_row + done, count, round->rows);
        round->rows += count;
        if (count < left) break;
        round->next_group++;
        if (group->results_leave) end_expert_batch(round);
    }
    end_expert_batch(round);
    return round->rows != 0;
}

struct room_rows {
    const struct room_round *round;
    uint32_t first; /* of the room */
};

static void take_received(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct room_rows *rows = context;
    const struct exchange_received *received = rows->round->received;
    struct gpu_exchange *x = of_pass(rows->round->pass);
    for (uint32_t row = rows->first + first; row < rows->first + first + count; row++)
        memcpy(x->received_host + row * x->dispatch_bytes,
               received->token_data[received->row_token[rows->round->first_row + row]],
               x->dispatch_bytes);
}

static void give_results(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct room_rows *rows = context;
    struct gpu_exchange *x = of_pass(rows->round->pass);
    for (uint32_t row = rows->first + first; row < rows->first + first + count; row++)
        memcpy(exchange_result(rows->round->pass->exchange, rows->round->first_row + row),
               x->results_host + row * x->combine_bytes, x->combine_bytes);
}

/* The wave's rows, as they came, become the experts' inputs. */
static void gpu_exchange_unpack(const struct pass *pass,
                                const struct room_expert_batch *expert_batch) {
    struct gpu_state *state = pass->model->gpu;
    struct gpu_exchange *x = of_pass(pass);
    char *rows = x->tickets ? x->outgoing : x->received + expert_batch->first * x->dispatch_bytes;
    const struct gpu_rows *to = &state->expert_input;
    struct packed from = packed_at(pass, rows);
    struct gpu_gather unpacked = {
        .from = x->tickets ? NULL : rows,
        .from_scales = x->tickets ? NULL : from.scales,
        .from_rows = x->tickets ? x->row_from + expert_batch->first : NULL,
        .scales_at = (uint32_t)exchange_rows_scales_at(pass->model->shape->hidden),
        .to = to->data + (size_t)expert_batch->first * to->pitch,
        .to_scales = to->scales + expert_batch->first,
        .live = expert_batch->live,
        .from_form = from.form,
        .to_form = gpu_form_of(to, gpu_layers_routed_kind(pass)),
        .n = pass->model->shape->hidden,
        .rows = expert_batch->count,
        .live_each = 1,
        .from_scale_step = from.scale_step,
        .to_scale_step = 1};
    gpu_launch(state, gpu_micro_batch_of(pass)->stream, gather, unpacked);
}

/* The wave's results go to their tokens' ranks, as they lie. */
static void hand_out(const struct pass *pass, const struct room_expert_batch *expert_batch) {
    struct gpu_exchange *x = of_pass(pass);
    struct gpu_form form = {result_kind(pass->model), (uint32_t)x->combine_bytes, 1};
    struct gpu_gather given = {.from = x->results + expert_batch->first * x->combine_bytes,
                               .live = expert_batch->live,
                               .to_rows = x->row_to + expert_batch->first,
                               .from_form = form,
                               .to_form = form,
                               .n = pass->model->shape->hidden,
                               .rows = expert_batch->count,
                               .live_each = 1};
    gpu_launch(pass->model->gpu, gpu_micro_batch_of(pass)->stream, gather, given);
}

/* By the host, the wave's rows come to the device. */
static void bring_expert_batch(const struct room_round *round,
                               const struct room_expert_batch *expert_batch) {
    const struct pass *pass = round->pass;
    struct gpu_exchange *x = of_pass(pass);
    struct room_rows rows = {round, expert_batch->first};
    size_t at = expert_batch->first * x->dispatch_bytes;
    if (x->tickets) return;
    token_loop_run(pass->model, take_received, &rows, expert_batch->count);
    pass_part(pass, STAGE_PART_COUNT); /* the host's copies are none of the device's parts */
    gpu_exchange_copy(pass, x->received + at, x->received_host + at,
                      expert_batch->count * x->dispatch_bytes, DEVICE_FROM_HOST);
}

/* Puts the wave in line, from where its rows lie on the device to where its results go. Nothing
 * that a launch is given depends on the layer. */
static void put_expert_batch(const struct pass *pass,
                             const struct room_expert_batch *expert_batch) {
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
    if (x->tickets) hand_out(pass, expert_batch);
}

/* The wave is in line; by the host, its results come there. */
static void end_put_expert_batch(const struct pass *pass,
                                 const struct room_expert_batch *expert_batch, uint32_t index) {
    struct gpu_exchange *x = of_pass(pass);
    size_t at = expert_batch->first * x->combine_bytes;
    if (!x->tickets)
        gpu_exchange_copy(pass, x->results_host + at, x->results + at,
                          expert_batch->count * x->combine_bytes, DEVICE_TO_HOST);
    pass_part(pass, PART_EXPERT_RESULT);
    device_record(pass->model->device, x->computed[index], gpu_micro_batch_of(pass)->stream);
}

/* The groups of rows; of rows that go from device to device, where those, their results and those
 * that leave lie. */
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
        .way = DEVICE_FROM_HOST};
    device_copy_rows(pass->model->device, gpu_micro_batch_of(pass)->stream, &lists);
}

/* The round as one wave of as many rows, and of all slots, as there may be: true. False: no segment
 * has it. */
static bool bound_round(const struct room_round *round, struct room_expert_batch *bounds_out) {
    struct gpu_exchange *x = of_pass(round->pass);
    if (round->expert_batch_count != 1) return false;
    uint32_t rows = gpu_graphs_rows(round->pass->model, round->rows, x->room_rows);
    *bounds_out = (struct room_expert_batch){
        .count = rows, .group_count = x->slots, .live = &x->groups[x->slots].row_count};
    if (!rows) return false;
    memset(x->groups_host + round->groups, 0, (x->slots - round->groups) * sizeof *x->groups_host);
    x->groups_host[x->slots] = (struct gpu_group){.row_count = round->rows};
    return true;
}

/* The round's one wave by a graph of such bounds, or as it becomes one. */
static void put_bounded(const struct pass *pass, const struct room_expert_batch *bounds) {
    struct gpu_exchange *x = of_pass(pass);
    uint32_t micro_batch = (uint32_t)gpu_micro_batch_number(pass);
    if (gpu_graphs_begin_rows(pass->model, micro_batch, bounds->count)) return;
    if (!x->links) copy_lists(pass, x->slots + 1, bounds->count);
    put_expert_batch(pass, bounds);
    gpu_graphs_end_rows(pass->model, micro_batch, bounds->count);
}

/* All waves are put in line before the first is waited for. */
static void gpu_exchange_run_round(const struct room_round *round) {
    const struct pass *pass = round->pass;
    struct gpu_exchange *x = of_pass(pass);
    struct room_expert_batch bounds;
    bool bounded = bound_round(round, &bounds);
    if (!bounded) copy_lists(pass, round->groups, round->rows);
    for (uint32_t i = 0; i < round->expert_batch_count; i++) {
        const struct room_expert_batch *expert_batch = &round->expert_batches[i];
        bring_expert_batch(round, expert_batch);
        if (bounded)
            put_bounded(pass, &bounds);
        else
            put_expert_batch(pass, expert_batch);
        end_put_expert_batch(pass, expert_batch, i);
    }
    for (uint32_t i = 0; i < round->expert_batch_count; i++) {
        const struct room_expert_batch *expert_batch = &round->expert_batches[i];
        struct room_rows rows = {round, expert_batch->first};
        gpu_exchange_await(pass, x->computed[i]);
        if (!x->tickets) token_loop_run(pass->model, give_results, &rows, expert_batch->count);
        exchange_combine_begin(pass->exchange, round->first_row + expert_batch->first,
                               expert_batch->count);
    }
}

/* ---- by links ---- */

static struct device_event **given_of(const struct pass *pass) {
    return &of_pass(pass)->given[gpu_micro_batch_number(pass)];
}

static const char *row_descriptor_of(const struct exchange_received *received, uint32_t row) {
    return received->token_data[received->row_token[row]];
}

/* The most that came of one rank. */
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

/* The pieces of this round, of all that were received: one expert batch. */
static void take_pieces(struct room_round *round) {
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
                gpu_links_place(x->links, row_descriptor_of(received, row),
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

/* Enqueues all rounds. The host waits for none, only until the lists of the last have been read. It
 * announces results when they are enqueued: the receiver waits for its own groups. */
static void run_by_links(struct room_round *round) {
    const struct pass *pass = round->pass;
    const struct model *model = pass->model;
    struct gpu_exchange *x = of_pass(pass);
    struct device_stream *stream = gpu_micro_batch_of(pass)->stream;
    uint32_t most = most_of_a_rank(x, model->placement.ranks, round->received);
    uint32_t *places = x->rows_host + (size_t)gpu_micro_batch_of(pass)->row * x->per_token;
    uint32_t rounds = gpu_links_begin(x->links, pass, most, places);
    struct room_expert_batch bounds;
    if (x->last && x->last->stream != stream)
        device_follow(model->device, stream, x->given[x->last->tile / GPU_ABSORB_TILE]);
    x->last = gpu_micro_batch_of(pass);
    for (uint32_t i = 0; i < rounds; i++) {
        await_others(pass, x->listed);
        gpu_links_list(x->links, pass, i);
        take_pieces(round);
        bool bounded = bound_round(round, &bounds);
        copy_lists(pass, bounded ? x->slots + 1 : round->groups,
                   gpu_exchange_larger(round->rows, gpu_links_left(x->links)));
        device_record(model->device, x->listed, stream);
        gpu_links_pass_rows(x->links, pass);
        if (bounded)
            put_bounded(pass, &bounds);
        else if (round->expert_batch_count)
            put_expert_batch(pass, &round->expert_batches[0]);
        pass_part(pass, PART_EXPERT_RESULT);
        gpu_links_pass_results(x->links, pass);
    }
    device_record(model->device, *given_of(pass), stream);
    if (round->received->row_count)
        exchange_combine_begin(pass->exchange, 0, round->received->row_count);
}

void gpu_exchange_run_routed(const struct pass *pass) {
    struct exchange_received received;
    struct room_round round = {.pass = pass, .received = &received};
    uint32_t *slot_tokens = pass->model->slot_tokens + compute_weights(pass)->first_slot;
    gpu_graphs_stop(pass->model);
    exchange_dispatch_finish(pass->exchange, &received);
    for (uint32_t i = 0; i < received.group_count; i++)
        slot_tokens[received.groups[i].slot] += received.groups[i].row_count;
    if (pass->model->gpu->exchange->links) {
        run_by_links(&round);
        return;
    }
    while (next_round(&round))
        gpu_exchange_run_round(&round);
}

/* ---- results that came back ---- */

struct returned_rows {
    const struct gpu_exchange *exchange;
    char *to;
    const char *from;
};

static void take_returned(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct returned_rows *of = context;
    size_t bytes = of->exchange->combine_bytes, at = first * bytes;
    memcpy(of->to + at, of->from + at, count * bytes);
}

/* Rows go where `to` is on the device, half the memory between at a time: the host fills one half
 * while the other is on its way. */
static void give_returned(const struct pass *pass, char *to, const char *from, uint32_t rows) {
    struct gpu_exchange *x = of_pass(pass);
    for (uint32_t first = 0; first < rows; first += x->returned_rows) {
        uint32_t half = x->next_half, count = gpu_exchange_least(rows - first, x->returned_rows);
        size_t at = first * x->combine_bytes;
        struct returned_rows of = {x, x->returned_host + half * x->returned_rows * x->combine_bytes,
                                   from + at};
        gpu_exchange_await(pass, x->half_left[half]);
        token_loop_run(pass->model, take_returned, &of, count);
        gpu_exchange_copy(pass, to + at, of.to, count * x->combine_bytes, DEVICE_FROM_HOST);
        device_record(pass->model->device, x->half_left[half], gpu_micro_batch_of(pass)->stream);
        x->next_half = !half;
    }
}

/* Those of the micro-batch lie behind each other, and each pair's row says where. */
static void send_returned(const struct pass *pass, const struct exchange_returned *returned) {
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
    give_returned(pass, x->returned + at, returned->results, rows);
}

/* Results lie by their tokens' experts; by links, where the stage before has said. Of a job that is
 * broken some never came. */
static void find_returned(const struct pass *pass) {
    struct gpu_exchange *x = of_pass(pass);
    size_t pair = (size_t)gpu_micro_batch_of(pass)->row * x->per_token;
    uint32_t pairs = pass->batch->token_count * x->per_token;
    for (uint32_t i = 0; i < pairs; i++)
        if (job_broken())
            x->rows_host[pair + i] = GPU_NO_PAIR;
        else if (!x->links)
            x->rows_host[pair + i] = i;
}

/* By what the host has noted in rows_host. */
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

/* The micro-batch's memory on the host is free again when its rows of the next layer are there. */
void gpu_exchange_finish(const struct pass *pass) {
    struct gpu_exchange *x = of_pass(pass);
    struct exchange_returned returned;
    gpu_graphs_stop(pass->model);
    exchange_combine_finish(pass->exchange, &returned);
    if (x->links) await_others(pass, *given_of(pass));
    if (!pass->batch->token_count) return;
    if (x->tickets)
        find_returned(pass);
    else
        send_returned(pass, &returned);
    if (gpu_micro_batch_enter(pass)) sum_returned(pass);
}

/* ---- sums on their way ---- */

struct summing {
    const struct gpu_exchange *exchange;
    const struct exchange_sum *list;
};

static void take_summands(void *context, uint32_t first, uint32_t count, uint32_t member) {
    const struct summing *of = context;
    const struct gpu_exchange *x = of->exchange;
    for (uint32_t i = first; i < first + count; i++)
        for (uint32_t k = 0; k < of->list[i].count; k++)
            memcpy(x->summands_host + x->sum_rows_host[i * x->per_token + k] * x->combine_bytes,
                   of->list[i].results[k], x->combine_bytes);
}

/* Says which rows are of which sum, behind each other, and how they weigh. Returns how many. */
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

/* At most SUMS of them. */
static void gpu_exchange_sum_some(struct model *model, const struct exchange_sum *list,
                                  uint32_t count) {
    struct gpu_state *state = model->gpu;
    struct gpu_exchange *x = state->exchange;
    size_t words = (size_t)count * x->per_token * sizeof(uint32_t);
    struct summing of = {x, list};
    struct error error;
    uint32_t rows = list_summands(x, list, count);
    token_loop_run(model, take_summands, &of, count);
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
    gpu_state_note(state, device_wait_stream(state->device, x->summing, &error), &error);
    for (uint32_t i = 0; i < count; i++)
        memcpy(list[i].sum, x->sums_host + i * x->combine_bytes, x->combine_bytes);
}

void gpu_exchange_sum(void *context, const struct exchange_sum *list, uint32_t count) {
    struct model *model = context;
    if (model->gpu->exchange->tickets) return; /* nothing lies on the host; the tokens' ranks sum */
    for (uint32_t first = 0; first < count; first += SUMS)
        gpu_exchange_sum_some(model, list + first, count - first < SUMS ? count - first : SUMS);
}
