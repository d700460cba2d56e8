/* SPDX-License-Identifier: Apache-2.0 */
#include "host/loop.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "host/clock.h"
#include "host/record_queue.h"

#define REQUESTS_BYTES_MAX ((size_t)64 << 20) /* whole requests that wait for the gateway */
#define BEHIND_BYTES_MAX ((size_t)32 << 20)   /* records that wait behind a machine */
#define WORKER_CLOSE_NS ((int64_t)2000000000)

enum { GATEWAY, UNIT, MACHINE_COUNT };

struct loop {
    struct event_base *base;
    struct http_server *http;
    struct event *terminate, *interrupt, *drain;
    struct event *turn; /* runs after the events at hand, once for all of them */
    struct event *wake; /* at the machines' next wake */
    struct machine machines[MACHINE_COUNT];
    struct record_queue inboxes[MACHINE_COUNT];
    struct worker *engine, *tokenizer;
    struct event *engine_answers, *tokenizer_answers;
    bool draining;
};

/* ---- routing ---- */

static const struct unit_id the_unit = {1};

static void carry_from_unit(struct loop *loop, const struct record *record) {
    struct outbox box = {.memory = malloc(carried_bytes(record->bytes)),
                         .capacity = (uint32_t)carried_bytes(record->bytes)};
    check(box.memory);
    void *inner = outbox_put_carried(&box, RECORD_FROM_UNIT, the_unit,
                                     (enum record_kind)record->kind, record->bytes);
    memcpy(inner, record, record->bytes);
    record_queue_force(&loop->inboxes[GATEWAY], outbox_next(&box, NULL));
    free(box.memory);
}

static void route(struct loop *loop, const struct record *record) {
    switch (record->kind) {
    case RECORD_RESPOND:
    case RECORD_STREAM_BEGIN:
    case RECORD_STREAM_DATA:
    case RECORD_STREAM_END:
        http_server_perform(loop->http, record);
        break;
    case RECORD_TOKENIZE:
        worker_give(loop->tokenizer, record);
        break;
    case RECORD_TO_UNIT:
        record_queue_force(&loop->inboxes[UNIT],
                           carried_inner((const struct record_carried *)record));
        break;
    case RECORD_UNIT_HELLO:
    case RECORD_TOKENS:
    case RECORD_FINISHED:
    case RECORD_UNIT_LOAD:
        carry_from_unit(loop, record);
        break;
    case RECORD_RUN_STEP:
        worker_give(loop->engine, record);
        break;
    default:
        check(!"a record that no machine puts out");
    }
}

static void drain_outbox(struct loop *loop, int which) {
    struct outbox *outbox = loop->machines[which].outbox;
    for (const struct record *record = NULL; (record = outbox_next(outbox, record));)
        route(loop, record);
    outbox_clear(outbox);
}

/* True while what the machine puts out has somewhere to go. */
static bool may_feed(struct loop *loop, int which) {
    if (which == UNIT) return record_queue_has_room(&loop->inboxes[GATEWAY]);
    return loop->inboxes[UNIT].bytes < BEHIND_BYTES_MAX &&
           (!loop->tokenizer || worker_waiting_bytes(loop->tokenizer) < BEHIND_BYTES_MAX);
}

/* Gives the machine what waits for it, then lets it act. True if anything happened. */
static bool run_machine(struct loop *loop, int which) {
    struct machine *machine = &loop->machines[which];
    bool moved = false;
    int64_t now = clock_now_ns();
    const struct record *record;
    while ((record = record_queue_first(&loop->inboxes[which])) && may_feed(loop, which)) {
        enum status status = machine->receive(machine->self, record, now);
        if (status == STATUS_OK) {
            record_queue_drop(&loop->inboxes[which]);
            moved = true;
            continue;
        }
        check(status == STATUS_FULL);
        if (machine->outbox->used == 0) break; /* it will have room later */
        drain_outbox(loop, which);
    }
    drain_outbox(loop, which);
    machine->step(machine->self, now);
    moved |= machine->outbox->used > 0;
    drain_outbox(loop, which);
    return moved;
}

static void plan_wake(struct loop *loop) {
    int64_t wake = MACHINE_NEVER;
    for (int i = 0; i < MACHINE_COUNT; i++) {
        int64_t own = loop->machines[i].next_wake_ns(loop->machines[i].self);
        if (own < wake) wake = own;
    }
    if (wake == MACHINE_NEVER) {
        event_del(loop->wake);
        return;
    }
    int64_t wait = wake - clock_now_ns();
    if (wait < 0) wait = 0;
    struct timeval time = {(time_t)(wait / 1000000000),
                           (suseconds_t)(wait % 1000000000 / 1000 + 1)};
    event_add(loop->wake, &time);
}

static bool is_done(const struct loop *loop) {
    return loop->draining && !record_queue_first(&loop->inboxes[GATEWAY]) &&
           http_server_open_exchanges(loop->http) == 0;
}

static void on_turn(evutil_socket_t file, short what, void *context) {
    struct loop *loop = context;
    bool moved;
    do {
        moved = run_machine(loop, GATEWAY);
        moved |= run_machine(loop, UNIT);
    } while (moved);
    plan_wake(loop);
}

static void ask_turn(struct loop *loop) {
    event_active(loop->turn, EV_TIMEOUT, 0);
}

/* ---- events ---- */

static enum status deliver_from_client(void *context, const struct record *record) {
    struct loop *loop = context;
    struct record_queue *inbox = &loop->inboxes[GATEWAY];
    if (record->kind == RECORD_CLIENT_REQUEST) {
        enum status status = record_queue_put(inbox, record);
        if (status) return status;
    } else {
        record_queue_force(inbox, record); /* at most one for each request that was taken */
    }
    ask_turn(loop);
    return STATUS_OK;
}

static void take_step_done(void *context, const struct record *record) {
    struct loop *loop = context;
    record_queue_force(&loop->inboxes[UNIT], record);
}

static void take_tokenized(void *context, const struct record *record) {
    struct loop *loop = context;
    record_queue_force(&loop->inboxes[GATEWAY], record);
}

static void on_engine(evutil_socket_t file, short what, void *context) {
    struct loop *loop = context;
    worker_take(loop->engine, take_step_done, loop);
    ask_turn(loop);
}

static void on_tokenizer(evutil_socket_t file, short what, void *context) {
    struct loop *loop = context;
    worker_take(loop->tokenizer, take_tokenized, loop);
    ask_turn(loop);
}

static void on_signal(evutil_socket_t number, short what, void *context) {
    struct loop *loop = context;
    if (loop->draining) _exit(128 + number);
    loop->draining = true;
    uint32_t open = http_server_open_exchanges(loop->http);
    if (open)
        fprintf(stderr, "finishing what has begun (%u open); a second signal ends at once\n", open);
    struct record_drain drain = {{RECORD_VERSION, RECORD_DRAIN, sizeof drain}};
    for (int i = 0; i < MACHINE_COUNT; i++)
        record_queue_force(&loop->inboxes[i], &drain.record);
    http_server_drain(loop->http);
    ask_turn(loop);
}

/* ---- life ---- */

static void raise_file_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

enum status loop_open(const struct http_server_options *http, struct loop **loop_out,
                      struct error *error) {
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop) return error_set(error, STATUS_NO_MEMORY, "no memory for the event loop");
    raise_file_limit();
    signal(SIGPIPE, SIG_IGN);
    loop->inboxes[GATEWAY].bytes_max = REQUESTS_BYTES_MAX;
    loop->inboxes[UNIT].bytes_max = BEHIND_BYTES_MAX;
    loop->base = event_base_new();
    if (loop->base) {
        loop->turn = event_new(loop->base, -1, 0, on_turn, loop);
        loop->wake = evtimer_new(loop->base, on_turn, loop);
    }
    struct http_server_options options = *http;
    options.deliver = deliver_from_client;
    options.deliver_context = loop;
    enum status status = STATUS_OK;
    if (!loop->base || !loop->turn || !loop->wake)
        status = error_set(error, STATUS_IO, "cannot start the event loop: no memory or files");
    if (!status) status = http_server_open(&options, loop->base, &loop->http, error);
    if (status)
        loop_close(loop);
    else
        *loop_out = loop;
    return status;
}

static enum status start_workers(struct loop *loop, const struct loop_parts *parts,
                                 struct error *error) {
    enum status status =
        worker_open("engine", parts->engine, parts->engine_context, &loop->engine, error);
    if (status) return status;
    loop->engine_answers =
        event_new(loop->base, worker_file(loop->engine), EV_READ | EV_PERSIST, on_engine, loop);
    event_add(loop->engine_answers, NULL);
    if (!parts->tokenize) return STATUS_OK;
    status =
        worker_open("tokenizer", parts->tokenize, parts->tokenize_context, &loop->tokenizer, error);
    if (status) return status;
    loop->tokenizer_answers = event_new(loop->base, worker_file(loop->tokenizer),
                                        EV_READ | EV_PERSIST, on_tokenizer, loop);
    event_add(loop->tokenizer_answers, NULL);
    return STATUS_OK;
}

enum status loop_run(struct loop *loop, const struct loop_parts *parts, struct error *error) {
    loop->machines[GATEWAY] = parts->gateway;
    loop->machines[UNIT] = parts->unit;
    enum status status = start_workers(loop, parts, error);
    if (!status) status = http_server_start(loop->http, error);
    if (status) return status;
    loop->terminate = evsignal_new(loop->base, SIGTERM, on_signal, loop);
    loop->interrupt = evsignal_new(loop->base, SIGINT, on_signal, loop);
    loop->drain = evsignal_new(loop->base, SIGUSR2, on_signal, loop); /* what mpirun passes on */
    event_add(loop->terminate, NULL);
    event_add(loop->interrupt, NULL);
    event_add(loop->drain, NULL);
    struct record_unit_link joined = {
        {RECORD_VERSION, RECORD_UNIT_JOINED, sizeof joined}, the_unit, 0};
    record_queue_force(&loop->inboxes[GATEWAY], &joined.record);
    if (parts->ready) parts->ready(parts->ready_context, http_server_url(loop->http));
    ask_turn(loop); /* the unit says hello */
    while (!is_done(loop))
        event_base_loop(loop->base, EVLOOP_ONCE);
    return STATUS_OK;
}

static void free_event(struct event *event) {
    if (event) event_free(event);
}

bool loop_close(struct loop *loop) {
    bool ended = true;
    free_event(loop->engine_answers);
    free_event(loop->tokenizer_answers);
    if (loop->engine) ended &= worker_close(loop->engine, WORKER_CLOSE_NS);
    if (loop->tokenizer) ended &= worker_close(loop->tokenizer, WORKER_CLOSE_NS);
    if (loop->http) http_server_close(loop->http);
    for (int i = 0; i < MACHINE_COUNT; i++)
        record_queue_clear(&loop->inboxes[i]);
    free_event(loop->turn);
    free_event(loop->wake);
    free_event(loop->terminate);
    free_event(loop->interrupt);
    free_event(loop->drain);
    if (loop->base) event_base_free(loop->base);
    free(loop);
    return ended;
}
