/* SPDX-License-Identifier: Apache-2.0
 * There are three phases on the same connections: the request for the model's name (which also
 * checks the server), the warm-up, and the measurement. In each phase, `slots` without a request
 * take the next one.
 */
#include "bench/load.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/random.h"
#include "bench/load_answer.h"
#include "bench/load_body.h"
#include "bench/load_events.h"
#include "bench/machine_limits.h"
#include "host/http/http_client.h"

#define SCRATCH_BYTES ((size_t)4 << 20)
#define BODY_BYTES_MAX ((size_t)64 << 10) /* of an answer that is not a stream */
#define DRAW_LEAVING 0x1EAF
#define WARMUP_NUMBERS ((uint64_t)1 << 40) /* the prompts differ from those of the measurement */

enum phase { ASK, WARM, MEASURE };

struct slot { /* one connection */
    bool busy;
    size_t request; /* index */
    uint32_t http_status;
    struct load_result result;
    struct load_events events;
    bool complete, has_usage, has_words, failed_inside;
    uint32_t event_count, token_ids;
    uint32_t leave_after; /* events; 0: it stays to the end */
    char message[160];
    char *body; /* [BODY_BYTES_MAX] of an answer that is not a stream; NULL until there is one */
    size_t body_count;
};

struct load {
    const struct load_options *options;
    const struct load_request *requests;
    size_t request_count, begun, ended;
    struct http_client *client;
    struct slot *slots; /* [concurrency] */
    uint32_t *idle;     /* [idle_count] slots without a request, a stack */
    uint32_t idle_count;
    enum phase phase;
    double start;
    size_t gap_room;
    char *scratch; /* [SCRATCH_BYTES] */
    struct load_outcome outcome;
    enum status status;
    struct error *error;
};

static double load_now(const struct load *load) {
    return machine_limits_now() - load->start;
}

static void load_stop(struct load *load, enum status status) {
    if (!load->status) load->status = status;
    http_client_stop(load->client);
}

/* ---- requests ---- */

/* Draws the number of events after which the client leaves; 0: never. */
static uint32_t draw_leaving(const struct load *load, const struct load_request *request,
                             size_t index) {
    uint64_t seed = load->options->seed;
    if (load->phase != MEASURE || request->output_tokens < 2) return 0;
    if (random_uniform(seed, DRAW_LEAVING, (uint32_t)index) * 100 >= load->options->leave_percent)
        return 0;
    double share = random_uniform(seed, DRAW_LEAVING + 1, (uint32_t)index);
    return 1 + (uint32_t)(share * (request->output_tokens - 1));
}

static bool begin_request(struct load *load, size_t index) {
    const struct load_options *options = load->options;
    uint32_t slot_index = load->idle[load->idle_count - 1];
    struct slot *slot = &load->slots[slot_index];
    const struct load_request *request = &load->requests[load->phase == WARM ? 0 : index];
    uint64_t number = load->phase == WARM ? WARMUP_NUMBERS + index : index;
    struct load_request warm = *request;
    if (load->phase == WARM) warm.block_count = 0;
    struct bytes body = load_body_take(options, load->outcome.model, &warm, number);
    struct load_events events = slot->events;
    char *kept = slot->body;
    load_events_reset(&events);
    *slot = (struct slot){.busy = true,
                          .request = index,
                          .events = events,
                          .body = kept,
                          .leave_after = draw_leaving(load, request, index)};
    slot->result.sent = load_now(load);
    slot->result.arrival =
        options->open && load->phase == MEASURE ? request->arrival : slot->result.sent;
    enum status status = STATUS_NO_MEMORY;
    if (body.data)
        status = http_client_send(load->client, slot_index, load_body_path(options), body);
    free((void *)(uintptr_t)body.data);
    if (status) {
        error_set(load->error, status, "no memory or files for %zu requests at a time",
                  load->begun - load->ended + 1);
        slot->busy = false;
        load_stop(load, status);
        return false;
    }
    load->idle_count--;
    load->begun++;
    uint32_t running = (uint32_t)(load->begun - load->ended);
    if (load->phase == MEASURE && running > load->outcome.running_max)
        load->outcome.running_max = running;
    return true;
}

static size_t phase_count(const struct load *load) {
    return load->phase == WARM ? load->options->warmup : load->request_count;
}

/* Begins the requests that are due while slots are free. */
static void begin_due(struct load *load) {
    bool open = load->options->open && load->phase == MEASURE;
    double end = load->phase == MEASURE ? load->options->seconds_max : 0;
    while (load->idle_count && load->begun < phase_count(load)) {
        if (end > 0 &&
            (load_now(load) >= end || (open && load->requests[load->begun].arrival >= end))) {
            load->request_count = load->begun;
            return;
        }
        double wait = open ? load->requests[load->begun].arrival - load_now(load) : 0;
        if (wait > 0) {
            http_client_wake_in(load->client, wait);
            return;
        }
        if (!begin_request(load, load->begun)) return;
    }
}

static void begin_phase(struct load *load, enum phase phase) {
    load->phase = phase;
    load->begun = load->ended = 0;
    load->start = machine_limits_now();
    if (phase == WARM && load->options->warmup == 0)
        begin_phase(load, MEASURE);
    else
        begin_due(load);
}

/* ---- answers ---- */

static void add_gap(struct load *load, double seconds) {
    struct load_outcome *outcome = &load->outcome;
    if (outcome->gap_count == load->gap_room) {
        size_t room = load->gap_room ? 2 * load->gap_room : 4096;
        double *gaps = realloc(outcome->gaps, room * sizeof *gaps);
        if (!gaps) return; /* one figure fewer */
        outcome->gaps = gaps;
        load->gap_room = room;
    }
    outcome->gaps[outcome->gap_count++] = seconds;
}

struct event_taker {
    struct load *load;
    struct slot *slot;
};

static void load_say(struct slot *slot, const char *text) {
    if (!slot->message[0]) snprintf(slot->message, sizeof slot->message, "%.159s", text);
}

static void load_take_event(void *context, struct bytes data) {
    struct load *load = ((struct event_taker *)context)->load;
    struct slot *slot = ((struct event_taker *)context)->slot;
    struct load_answer answer;
    struct error why;
    if (load_answer_read(data, load->scratch, SCRATCH_BYTES, &answer, &why)) {
        slot->failed_inside = true;
        load_say(slot, why.text);
        return;
    }
    if (answer.failed) {
        slot->failed_inside = true;
        load_say(slot, answer.message);
    }
    slot->complete |= answer.done || answer.finished;
    if (answer.has_usage) {
        slot->has_usage = true;
        slot->result.prompt_tokens = (uint32_t)answer.prompt_tokens;
        slot->result.output_tokens = (uint32_t)answer.output_tokens;
        slot->result.cached_tokens = (uint32_t)answer.cached_tokens;
    }
    slot->has_words |= answer.has_tokens;
    /* An answer may be a single token without text, which is visible only by its end. */
    if (!answer.has_tokens && !(answer.finished && slot->event_count == 0)) return;
    double moment = load_now(load);
    if (slot->event_count++ == 0)
        slot->result.first = moment;
    else if (load->phase == MEASURE)
        add_gap(load, moment - slot->result.last);
    slot->result.last = moment;
    slot->token_ids += answer.token_ids;
    if (slot->event_count == slot->leave_after)
        http_client_leave(load->client, (uint32_t)(slot - load->slots));
}

static void load_on_head(void *context, uint32_t connection, uint32_t http_status) {
    struct load *load = context;
    load->slots[connection].http_status = http_status;
}

static void keep_body(struct slot *slot, struct bytes data) {
    if (!slot->body) slot->body = malloc(BODY_BYTES_MAX);
    if (!slot->body) return;
    size_t room = BODY_BYTES_MAX - slot->body_count;
    size_t count = data.count < room ? data.count : room;
    memcpy(slot->body + slot->body_count, data.data, count);
    slot->body_count += count;
}

static void load_on_data(void *context, uint32_t connection, struct bytes data) {
    struct load *load = context;
    struct slot *slot = &load->slots[connection];
    struct event_taker taker = {load, slot};
    if (load->phase == ASK || slot->http_status != 200)
        keep_body(slot, data);
    else if (load_events_push(&slot->events, data, load_take_event, &taker))
        slot->failed_inside = true;
}

/* ---- ends ---- */

static enum load_failure load_verify(struct load *load, struct slot *slot, enum http_end end) {
    char message[128];
    if (end == HTTP_END_NO_CONNECTION) return LOAD_NO_CONNECTION;
    if (end == HTTP_END_TIMEOUT) return LOAD_TIMEOUT;
    if (end == HTTP_END_LEFT) return slot->failed_inside ? LOAD_IN_STREAM : LOAD_LEFT;
    if (end == HTTP_END_WHOLE && slot->http_status != 200) {
        bool found = load_answer_error((struct bytes){slot->body, slot->body_count}, load->scratch,
                                       SCRATCH_BYTES, message, sizeof message);
        snprintf(slot->message, sizeof slot->message, "HTTP %u%s%s", slot->http_status,
                 found ? ": " : "", found ? message : "");
        if (slot->http_status == 429 || slot->http_status == 503) return LOAD_REFUSED;
        return slot->http_status < 500 ? LOAD_HTTP_CLIENT : LOAD_HTTP_SERVER;
    }
    if (slot->failed_inside) return LOAD_IN_STREAM;
    bool empty =
        !slot->event_count || (!slot->has_words && slot->has_usage && !slot->result.output_tokens);
    if (end == HTTP_END_WHOLE && slot->complete && !empty) return LOAD_OK;
    load_say(slot, end != HTTP_END_WHOLE ? "the connection broke in the middle of the answer"
                   : slot->complete      ? "the answer has no tokens"
                                         : "the stream ended without a finish_reason or [DONE]");
    return LOAD_BROKEN;
}

static void note_result(struct load *load, struct slot *slot, enum http_end end) {
    struct load_result *result = &slot->result;
    result->end = load_now(load);
    result->failure = load_verify(load, slot, end);
    if (result->failure == LOAD_OK && !slot->has_usage) {
        result->prompt_tokens = load->requests[slot->request].prompt_tokens;
        result->output_tokens = slot->token_ids ? slot->token_ids : slot->event_count;
    }
    char *kept = load->outcome.messages[result->failure];
    if (result->failure != LOAD_OK && !kept[0]) memcpy(kept, slot->message, sizeof slot->message);
    load->outcome.results[slot->request] = *result;
    load->outcome.seconds = result->end;
}

/* A failed warm-up request is not counted, but predicts failures of the measurement. */
static bool warm_enough(struct load *load, struct slot *slot, enum http_end end) {
    enum load_failure failure = load_verify(load, slot, end);
    if (failure == LOAD_OK) return true;
    error_set(load->error, STATUS_INVALID, "a warm-up request to %s failed: %s (%s)",
              http_client_name(load->client), load_failure_name(failure), slot->message);
    load_stop(load, STATUS_INVALID);
    return false;
}

static void take_model(struct load *load, struct slot *slot, enum http_end end) {
    struct load_outcome *outcome = &load->outcome;
    const char *name = http_client_name(load->client);
    struct error why = {"no answer"};
    enum status status = STATUS_OK;
    if (end == HTTP_END_NO_CONNECTION)
        status = error_set(load->error, STATUS_IO,
                           "cannot connect to %s: is the server running, and is that its address?",
                           name);
    else if (load->options->model)
        snprintf(outcome->model, sizeof outcome->model, "%.255s", load->options->model);
    else if (end != HTTP_END_WHOLE || slot->http_status != 200 ||
             load_answer_model((struct bytes){slot->body, slot->body_count}, load->scratch,
                               SCRATCH_BYTES, outcome->model, sizeof outcome->model, &why))
        status = error_set(load->error, STATUS_INVALID,
                           "%s/v1/models names no model (HTTP status %u, %s): give one with "
                           "--model-name",
                           name, slot->http_status, why.text);
    slot->body_count = 0;
    if (status)
        load_stop(load, status);
    else
        begin_phase(load, WARM);
}

static void end_phase_if_over(struct load *load) {
    if (load->ended < phase_count(load)) return;
    if (load->phase == WARM)
        begin_phase(load, MEASURE);
    else if (load->phase == MEASURE)
        load_stop(load, STATUS_OK);
}

static void load_on_end(void *context, uint32_t connection, enum http_end end) {
    struct load *load = context;
    struct slot *slot = &load->slots[connection];
    slot->busy = false;
    load->idle[load->idle_count++] = connection;
    if (load->phase == ASK) {
        take_model(load, slot, end);
        return;
    }
    load->ended++;
    if (load->phase == MEASURE)
        note_result(load, slot, end);
    else if (!warm_enough(load, slot, end))
        return;
    begin_due(load);
    end_phase_if_over(load);
}

static void load_on_wake(void *context) {
    struct load *load = context;
    begin_due(load);
    end_phase_if_over(load);
}

/* ---- the run ---- */

static enum status load_open(struct load *load) {
    const struct load_options *options = load->options;
    struct http_client_options http = {
        .url = options->url,
        .connections_max = options->concurrency,
        .stall_ms_max = options->stall_ms_max,
        .head = load_on_head,
        .data = load_on_data,
        .end = load_on_end,
        .wake = load_on_wake,
        .context = load,
    };
    check(options->concurrency >= 1 && options->concurrency <= LOAD_CONCURRENCY_MAX);
    load->slots = calloc(options->concurrency, sizeof *load->slots);
    load->idle = calloc(options->concurrency, sizeof *load->idle);
    load->scratch = malloc(SCRATCH_BYTES);
    load->outcome.results = calloc(load->request_count, sizeof *load->outcome.results);
    if (!load->slots || !load->idle || !load->scratch || !load->outcome.results)
        return error_set(load->error, STATUS_NO_MEMORY, "no memory for %zu requests",
                         load->request_count);
    for (uint32_t i = 0; i < options->concurrency; i++)
        load->idle[load->idle_count++] = options->concurrency - 1 - i;
    return http_client_open(&http, &load->client, load->error);
}

static void load_close(struct load *load) {
    http_client_close(load->client);
    for (uint32_t i = 0; load->slots && i < load->options->concurrency; i++) {
        load_events_free(&load->slots[i].events);
        free(load->slots[i].body);
    }
    free(load->slots);
    free(load->idle);
    free(load->scratch);
}

enum status load_run(const struct load_options *options, const struct load_request *requests,
                     size_t request_count, struct load_outcome *outcome_out, struct error *error) {
    struct load load = {.options = options,
                        .requests = requests,
                        .request_count = request_count,
                        .phase = ASK,
                        .error = error};
    check(request_count > 0);
    enum status status = load_open(&load);
    if (!status) {
        load.start = machine_limits_now();
        uint32_t slot = load.idle[--load.idle_count];
        load.status = http_client_send(load.client, slot, "/v1/models", (struct bytes){NULL, 0});
        if (load.status)
            error_set(error, load.status, "no memory or files for a connection");
        else
            http_client_run(load.client);
        status = load.status;
    }
    load.outcome.request_count = load.request_count;
    load_close(&load);
    if (status)
        load_outcome_free(&load.outcome);
    else
        *outcome_out = load.outcome;
    return status;
}

void load_outcome_free(struct load_outcome *outcome) {
    free(outcome->results);
    free(outcome->gaps);
    *outcome = (struct load_outcome){0};
}
