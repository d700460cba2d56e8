/* SPDX-License-Identifier: Apache-2.0 */
#include "host/loop.h"

#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/number.h"
#include "host/fleet_lines.h"
#include "host/process/file_limit.h"
#include "host/process/log/log.h"
#include "host/process/log/log_request.h"
#include "host/process/ranks/rank_health.h"
#include "host/process/service_notify.h"
#include "host/request_notes.h"
#include "host/request_turns.h"
#include "host/wire/record_queue.h"
#include "host/wire/request_set.h"

#define INBOX_BYTES_MAX ((size_t)64 << 20)     /* records that wait for the gateway */
#define SMALL_BYTES_MAX ((size_t)64 << 20)     /* small requests that wait for the gateway */
#define LARGE_BYTES_MAX ((size_t)256 << 20)    /* large requests */
#define BEHIND_BYTES_MAX ((size_t)32 << 20)    /* records that wait for a unit, or for a peer */
#define LARGE_REQUEST_BYTES ((size_t)16 << 10) /* reading it takes longer than other records */
#define SMALL_NS_MAX                                                                               \
    ((int64_t)4000000) /* for small requests in a turn; then disconnects are noticed */
#define OTHER_FILES 512
#define WORKER_CLOSE_NS ((int64_t)2000000000)
#define LOAD_NS_MAX ((int64_t)500000000) /* interval of a unit's load reports */
#define RETRY_US 2000                    /* after a send failed because the wire was full */
#define FINISH_NS_MAX                                                                              \
    ((int64_t)35000000000) /* for running requests; the gateway gives up earlier                   \
                            */

enum { GATEWAY, UNIT, MACHINE_COUNT };

struct loop_link { /* a wire: a gateway's for all units, or a unit's to one of its gateways */
    struct loop *loop;
    struct wire *wire;
    char *address;
};

/* A process connected over a wire. */
struct loop_peer {
    struct loop_link *link;
    uint32_t number; /* 0: none */
    struct record_queue waiting;
};

struct loop_worker {
    struct loop *loop;
    struct worker *worker; /* NULL: there is none */
    struct event *answers; /* activated when there are answers */
    int machine;           /* receiver of the answers */
};

struct loop {
    struct event_base *base;
    struct http_server *http[HTTP_LISTENER_COUNT]; /* a gateway's listeners; NULL: none */
    struct event *terminate, *interrupt, *drain, *reload;
    struct event *finish_by; /* the deadline of an orderly shutdown */
    struct event *turn;      /* runs once after all current events */
    struct event *wake;      /* next wake-up time of the machines */
    struct machine machines[MACHINE_COUNT];
    struct record_queue inboxes[MACHINE_COUNT];
    struct request_turns small; /* clients' requests; the gateway gets a few per turn */
    struct request_turns large; /* the gateway gets one per turn */
    int64_t large_at_ns;        /* earliest time for the next large request */
    struct loop_worker engine, tokenizer, grammar, ledger;
    const struct loop_parts *parts;
    struct loop_link links[LOOP_GATEWAYS_MAX]; /* [link_count]; a gateway has one */
    uint32_t link_count;
    struct event *retry;
    struct fleet_lines fleet;   /* state of the log lines about units */
    struct request_notes notes; /* of a unit: state of the log lines about requests */
    struct loop_peer *peers;    /* [peer_count] */
    uint32_t peer_count;
    /* For a unit with wires: */
    struct request_set requests;              /* owner: the index of the request's peer */
    struct record_queue hello, load, experts; /* the latest of each */
    struct event *sign;
    struct event *log_wake; /* the time of the next log_turn */
    bool draining, is_ready, ended, stuck;
    enum status status;
    struct error error;
};

static bool has_machine(const struct loop *loop, int which) {
    return loop->machines[which].receive != NULL;
}

static void ask_turn(struct loop *loop) {
    event_active(loop->turn, EV_TIMEOUT, 0);
}

/* ---- the wire ---- */

static struct loop_peer *find_peer(const struct loop_link *link, uint32_t number) {
    struct loop *loop = link->loop;
    for (uint32_t i = 0; i < loop->peer_count; i++)
        if (loop->peers[i].number == number && loop->peers[i].link == link) return &loop->peers[i];
    return NULL;
}

static uint32_t loop_place_of(const struct loop *loop, const struct loop_peer *peer) {
    return (uint32_t)(peer - loop->peers);
}

/* Returns a free place, or a new one. */
static struct loop_peer *loop_find_place(struct loop *loop) {
    for (uint32_t i = 0; i < loop->peer_count; i++)
        if (loop->peers[i].number == 0) return &loop->peers[i];
    loop->peers = realloc(loop->peers, (loop->peer_count + 1) * sizeof *loop->peers);
    check(loop->peers); /* at most as many as there are connections */
    return &loop->peers[loop->peer_count++];
}

static void retry_soon(struct loop *loop) {
    event_add(loop->retry, &(struct timeval){.tv_usec = RETRY_US});
}

/* Sends a record, or drops it if the peer has disconnected, which is reported separately. Returns
 * false if the wire is full. */
static bool loop_try_send(struct loop *loop, struct loop_peer *peer, const struct record *record) {
    if (wire_send(peer->link->wire, peer->number, record) != STATUS_FULL) return true;
    retry_soon(loop);
    return false;
}

/* Sends waiting records in order. */
static void flush_peer(struct loop *loop, struct loop_peer *peer) {
    const struct record *record;
    while ((record = record_queue_first(&peer->waiting)) && loop_try_send(loop, peer, record))
        record_queue_drop(&peer->waiting);
}

static void flush_peers(struct loop *loop) {
    for (uint32_t i = 0; i < loop->peer_count; i++)
        if (loop->peers[i].number) flush_peer(loop, &loop->peers[i]);
}

static void send_to(struct loop *loop, struct loop_peer *peer, const struct record *record) {
    flush_peer(loop, peer);
    if (record_queue_first(&peer->waiting) || !loop_try_send(loop, peer, record))
        record_queue_force(&peer->waiting, record);
    if (has_machine(loop, GATEWAY) && !record_queue_has_room(&peer->waiting))
        wire_drop(peer->link->wire, peer->number, "it does not take what it is sent");
}

/* Sends a unit's record to all its gateways, or a gateway's to all its units. */
static void send_to_all(struct loop *loop, const struct record *record) {
    for (uint32_t i = 0; i < loop->peer_count; i++)
        if (loop->peers[i].number) send_to(loop, &loop->peers[i], record);
}

static void keep_last(struct record_queue *queue, const struct record *record) {
    record_queue_clear(queue);
    record_queue_force(queue, record);
}

static void loop_say_ready(struct loop *loop) {
    if (loop->is_ready) return;
    loop->is_ready = true;
    const char *urls[HTTP_LISTENER_COUNT] = {NULL};
    for (int i = 0; i < HTTP_LISTENER_COUNT; i++)
        if (loop->http[i]) urls[i] = http_server_url(loop->http[i]);
    if (loop->parts->ready) loop->parts->ready(loop->parts->ready_context, urls);
    service_notify("READY=1");
}

static enum status start_http(struct loop *loop, struct error *error) {
    enum status status = STATUS_OK;
    for (int i = 0; i < HTTP_LISTENER_COUNT && !status; i++)
        if (loop->http[i]) status = http_server_start(loop->http[i], error);
    return status;
}

static uint32_t loop_open_exchanges(const struct loop *loop) {
    uint32_t open = 0;
    for (int i = 0; i < HTTP_LISTENER_COUNT; i++)
        if (loop->http[i]) open += http_server_open_exchanges(loop->http[i]);
    return open;
}

static void let_clients_in(struct loop *loop) {
    if (loop->is_ready) return;
    struct error error;
    enum status status = start_http(loop, &error);
    if (status)
        loop_end(loop, status, &error);
    else
        loop_say_ready(loop);
}

static void report_link(struct loop *loop, enum record_kind kind, uint32_t number) {
    struct record_unit_link link = {record_head(kind, sizeof link), {number}, 0};
    record_queue_force(&loop->inboxes[GATEWAY], &link.record);
    ask_turn(loop);
}

static void loop_on_joined(void *context, uint32_t number) {
    struct loop_link *link = context;
    struct loop *loop = link->loop;
    struct loop_peer *peer = loop_find_place(loop);
    *peer = (struct loop_peer){link, number, {.bytes_max = BEHIND_BYTES_MAX}};
    if (has_machine(loop, GATEWAY)) {
        report_link(loop, RECORD_UNIT_JOINED, number);
        return;
    }
    log_say(LOG_INFO, "gateway", "is connected address=%s", wire_address(link->wire));
    if (record_queue_first(&loop->hello)) send_to(loop, peer, record_queue_first(&loop->hello));
    if (record_queue_first(&loop->load)) send_to(loop, peer, record_queue_first(&loop->load));
    if (record_queue_first(&loop->experts)) send_to(loop, peer, record_queue_first(&loop->experts));
    loop_say_ready(loop);
}

static void loop_cancel(void *context, struct request_id request) {
    struct loop *loop = context;
    struct record_cancel record = {record_head(RECORD_CANCEL, sizeof record), request};
    record_queue_force(&loop->inboxes[UNIT], &record.record);
}

static void loop_on_lost(void *context, uint32_t number) {
    struct loop_link *link = context;
    struct loop *loop = link->loop;
    struct loop_peer *peer = find_peer(link, number);
    check(peer);
    record_queue_clear(&peer->waiting);
    peer->number = 0;
    if (has_machine(loop, GATEWAY)) {
        report_link(loop, RECORD_UNIT_LOST, number);
        return;
    }
    uint32_t given_up =
        request_set_take(&loop->requests, loop_place_of(loop, peer), loop_cancel, loop);
    if (!loop->draining)
        log_say(LOG_WARNING, "gateway",
                "is gone, requests are given up, what was computed is kept requests=%u address=%s",
                given_up, wire_address(link->wire));
    ask_turn(loop);
}

static void forward_from_unit(struct loop *loop, uint32_t unit, const struct record *record) {
    record_queue_force_from_unit(&loop->inboxes[GATEWAY], (struct unit_id){unit}, record);
}

static void loop_on_wire(void *context, uint32_t number, const struct record *record) {
    struct loop_link *link = context;
    struct loop *loop = link->loop;
    if (has_machine(loop, GATEWAY)) {
        forward_from_unit(loop, number, record);
        if (record->kind == RECORD_UNIT_HELLO && loop->parts->waits_for_unit) let_clients_in(loop);
    } else {
        if (record->kind == RECORD_DRAIN && loop->draining) return; /* it cannot be revoked */
        fleet_lines_reported(&loop->fleet, 0, record);
        if (record->kind == RECORD_SUBMIT) {
            request_notes_come(&loop->notes, (const struct record_submit *)record);
            request_set_add(&loop->requests, record_request(record),
                            loop_place_of(loop, find_peer(link, number)));
        }
        record_queue_force(&loop->inboxes[UNIT], record);
    }
    ask_turn(loop);
}

static bool loop_may_take(void *context) {
    struct loop *loop = ((struct loop_link *)context)->loop;
    int which = has_machine(loop, GATEWAY) ? GATEWAY : UNIT;
    return record_queue_has_room(&loop->inboxes[which]);
}

/* Answers to a closed connection are dropped. */
static void answer_gateway(struct loop *loop, const struct record *record) {
    struct request_id request = record_request(record);
    if (record->kind == RECORD_FINISHED)
        request_notes_end(&loop->notes, (const struct record_finished *)record);
    uint32_t owner = record->kind == RECORD_FINISHED ? request_set_remove(&loop->requests, request)
                                                     : request_set_owner(&loop->requests, request);
    if (owner != REQUEST_SET_NOBODY) send_to(loop, &loop->peers[owner], record);
}

/* Routes a remote unit's record: to the request's gateway, or to all gateways. */
static void route_to_gateways(struct loop *loop, const struct record *record) {
    switch (record->kind) {
    case RECORD_UNIT_HELLO:
        rank_health_report_role(((const struct record_unit_hello *)record)->role);
        keep_last(&loop->hello, record);
        break;
    case RECORD_UNIT_LOAD:
        keep_last(&loop->load, record);
        event_add(loop->sign, &(struct timeval){.tv_usec = LOAD_NS_MAX / 1000});
        break;
    case RECORD_EXPERTS:
        keep_last(&loop->experts, record);
        break;
    default:
        answer_gateway(loop, record);
        return;
    }
    send_to_all(loop, record);
}

static void loop_on_sign(evutil_socket_t file, short what, void *context) {
    struct loop *loop = context;
    if (record_queue_first(&loop->load)) send_to_all(loop, record_queue_first(&loop->load));
    event_add(loop->sign, &(struct timeval){.tv_usec = LOAD_NS_MAX / 1000});
}

static void loop_on_retry(evutil_socket_t file, short what, void *context) {
    flush_peers(context);
    ask_turn(context);
}

/* ---- routing ---- */

#define THE_UNIT 1 /* id of a unit in this process */

static void route_to_unit(struct loop *loop, const struct record_envelope *envelope) {
    fleet_lines_reported(&loop->fleet, envelope->unit.value, envelope_inner(envelope));
    if (has_machine(loop, UNIT)) {
        record_queue_force(&loop->inboxes[UNIT], envelope_inner(envelope));
        return;
    }
    struct loop_peer *peer = find_peer(&loop->links[0], envelope->unit.value);
    if (peer) send_to(loop, peer, envelope_inner(envelope));
}

static struct http_server *loop_server_of(const struct loop *loop, struct connection_id id) {
    struct http_server *server = loop->http[http_server_listener(id)];
    check(server);
    return server;
}

static void loop_route(struct loop *loop, const struct record *record) {
    switch (record->kind) {
    case RECORD_RESPOND:
    case RECORD_STREAM_BEGIN:
    case RECORD_STREAM_DATA:
    case RECORD_STREAM_END:
        http_server_perform(loop_server_of(loop, record_connection(record)), record);
        break;
    case RECORD_TOKENIZE:
        worker_give(loop->tokenizer.worker, record);
        break;
    case RECORD_CONSTRAIN:
        worker_give(loop->grammar.worker, record);
        break;
    case RECORD_TO_UNIT:
        route_to_unit(loop, (const struct record_envelope *)record);
        break;
    case RECORD_USAGE:
        log_request_ended((const struct record_usage *)record);
        fleet_lines_ended(&loop->fleet, record_request(record));
        if (loop->ledger.worker) worker_give(loop->ledger.worker, record);
        break;
    case RECORD_UNIT_TOTALS:
        if (loop->ledger.worker) worker_give(loop->ledger.worker, record);
        break;
    case RECORD_KV_EXPECT:
    case RECORD_KV_PUSH:
    case RECORD_KV_CANCEL:
    case RECORD_KV_FIND:
    case RECORD_KV_LOAD:
    case RECORD_KV_PARK:
    case RECORD_KV_PUT:
        loop->parts->forward(loop->parts->forward_context, record);
        break;
    case RECORD_DRAIN: /* of one rank */
        if (loop->parts->forward) loop->parts->forward(loop->parts->forward_context, record);
        worker_give(loop->engine.worker, record);
        break;
    case RECORD_RUN_STEP:
    case RECORD_ROLE:
        worker_give(loop->engine.worker, record);
        break;
    default:
        check(record_goes(record->kind, WAY_UNIT_TO_GATEWAY));
        if (has_machine(loop, GATEWAY))
            forward_from_unit(loop, THE_UNIT, record);
        else
            route_to_gateways(loop, record);
    }
}

static void loop_drain_outbox(struct loop *loop, int which) {
    struct outbox *outbox = loop->machines[which].outbox;
    for (const struct record *record = NULL; (record = machine_outbox_next(outbox, record));)
        loop_route(loop, record);
    machine_outbox_clear(outbox);
}

/* A gateway that does not read blocks its units until it counts as lost, a few seconds at most. */
static bool gateways_have_room(const struct loop *loop) {
    for (uint32_t i = 0; i < loop->peer_count; i++)
        if (!record_queue_has_room(&loop->peers[i].waiting)) return false;
    return true;
}

static bool waits_for_gateways(const struct loop *loop) {
    for (uint32_t i = 0; i < loop->peer_count; i++)
        if (record_queue_first(&loop->peers[i].waiting)) return true;
    return false;
}

/* True while there is room for the machine's output. */
static bool may_feed(struct loop *loop, int which) {
    if (which == UNIT && has_machine(loop, GATEWAY))
        return record_queue_has_room(&loop->inboxes[GATEWAY]);
    if (which == UNIT) return gateways_have_room(loop);
    return loop->inboxes[UNIT].bytes < BEHIND_BYTES_MAX; /* tokenizer, grammar: at most one text */
}

/* Writes the log lines about units after the gateway has received a record, because the gateway
 * numbers a unit and may refuse it. */
static void report_received(struct loop *loop, const struct record *record) {
    const struct loop_parts *parts = loop->parts;
    if (record->kind == RECORD_UNIT_LOST)
        fleet_lines_lost(&loop->fleet, ((const struct record_unit_link *)record)->unit.value,
                         loop->draining);
    if (record->kind != RECORD_FROM_UNIT) return;
    const struct record_envelope *envelope = (const struct record_envelope *)record;
    fleet_lines_received(&loop->fleet, envelope->unit.value, envelope_inner(envelope));
    if (parts->refuses && parts->refuses(parts->refuses_context, envelope->unit))
        fleet_lines_refused(&loop->fleet, envelope->unit.value, envelope_inner(envelope));
}

/* Passes waiting records to the machine. Returns true if there were any. */
static bool feed(struct loop *loop, int which, int64_t now) {
    struct machine *machine = &loop->machines[which];
    bool moved = false;
    const struct record *record;
    while ((record = record_queue_first(&loop->inboxes[which])) && may_feed(loop, which)) {
        enum status status = machine->receive(machine->self, record, now);
        if (status == STATUS_OK) {
            if (which == GATEWAY) report_received(loop, record);
            record_queue_drop(&loop->inboxes[which]);
            moved = true;
            continue;
        }
        check(status == STATUS_FULL);
        if (machine->outbox->used == 0) break; /* the machine itself has no room yet */
        loop_drain_outbox(loop, which);
    }
    loop_drain_outbox(loop, which);
    return moved;
}

/* Passes waiting records to the machine, including those that result at once, and then calls its
 * step. Returns true if anything happened. */
static bool run_machine(struct loop *loop, int which) {
    struct machine *machine = &loop->machines[which];
    bool moved = false;
    int64_t now = clock_now_ns();
    if (!has_machine(loop, which)) return false;
    while (feed(loop, which, now))
        moved = true;
    machine->step(machine->self, now);
    moved |= machine->outbox->used > 0;
    loop_drain_outbox(loop, which);
    return moved;
}

/* When the next request may be passed; MACHINE_NEVER: none waits, or other records come first. */
static int64_t next_request_ns(const struct loop *loop) {
    if (record_queue_first(&loop->inboxes[GATEWAY])) return MACHINE_NEVER;
    if (request_turns_any(&loop->small)) return 0;
    return request_turns_any(&loop->large) ? loop->large_at_ns : MACHINE_NEVER;
}

static void plan_wake(struct loop *loop) {
    int64_t wake = MACHINE_NEVER;
    for (int i = 0; i < MACHINE_COUNT; i++) {
        if (!has_machine(loop, i)) continue;
        int64_t own = loop->machines[i].next_wake_ns(loop->machines[i].self);
        if (own < wake) wake = own;
    }
    wake = min_i64(wake, next_request_ns(loop));
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

static bool nothing_is_left(const struct loop *loop) {
    if (has_machine(loop, GATEWAY))
        return !record_queue_first(&loop->inboxes[GATEWAY]) && !request_turns_any(&loop->small) &&
               !request_turns_any(&loop->large) && loop_open_exchanges(loop) == 0;
    return !record_queue_first(&loop->inboxes[UNIT]) && request_set_count(&loop->requests) == 0 &&
           !waits_for_gateways(loop);
}

static bool loop_is_done(const struct loop *loop) {
    return loop->ended || (loop->draining && nothing_is_left(loop));
}

static void run_machines(struct loop *loop) {
    bool moved;
    do {
        moved = run_machine(loop, GATEWAY);
        moved |= run_machine(loop, UNIT);
    } while (moved);
}

/* Passes the next request to the gateway. If its client has disconnected, drops it unread. */
static void give_next(struct loop *loop, struct request_turns *turns) {
    struct connection_id next = request_turns_next(turns);
    if (http_server_close_left(loop_server_of(loop, next), next)) return;
    request_turns_give(turns, &loop->inboxes[GATEWAY]);
}

/* Passes small requests one at a time; other new records come first, and disconnected clients are
 * noticed. */
static void give_small(struct loop *loop) {
    int64_t now_ns = clock_now_ns(), end_ns = now_ns + SMALL_NS_MAX;
    bool given = false;
    while (request_turns_any(&loop->small) && now_ns < end_ns &&
           !record_queue_first(&loop->inboxes[GATEWAY])) {
        give_next(loop, &loop->small);
        given |= feed(loop, GATEWAY, now_ns);
        now_ns = clock_now_ns();
    }
    if (given) run_machines(loop);
}

/* Passes a large request. The next one must wait as long as this one took, so that there is time
 * for other records and their effects. */
static void give_large(struct loop *loop) {
    int64_t began_ns = clock_now_ns();
    if (!request_turns_any(&loop->large) || record_queue_first(&loop->inboxes[GATEWAY]) ||
        loop->large_at_ns > began_ns)
        return;
    give_next(loop, &loop->large);
    run_machines(loop);
    int64_t ended_ns = clock_now_ns();
    loop->large_at_ns = ended_ns + (ended_ns - began_ns);
}

static void on_turn(evutil_socket_t file, short what, void *context) {
    struct loop *loop = context;
    run_machines(loop);
    give_small(loop);
    give_large(loop);
    event_base_update_cache_time(loop->base); /* new timers start at the present time */
    for (uint32_t i = 0; i < loop->link_count; i++)
        wire_resume(loop->links[i].wire);
    plan_wake(loop);
}

/* ---- events ---- */

static enum status put_request(struct loop *loop, const struct record_client_request *request) {
    bool is_small = request->record.bytes < LARGE_REQUEST_BYTES;
    uint64_t client = http_server_client(loop->http[request->listener], request->connection);
    struct connection_id dropped;
    enum status status;
    do {
        status =
            request_turns_put(is_small ? &loop->small : &loop->large, client, request, &dropped);
        if (dropped.value) http_server_refuse_waiting(loop_server_of(loop, dropped), dropped);
    } while (status && dropped.value);
    return status;
}

static bool loop_drop_request(struct loop *loop, struct connection_id connection) {
    return request_turns_drop(&loop->small, connection) ||
           request_turns_drop(&loop->large, connection);
}

/* CLIENT_GONE: at most one for each accepted request. */
static enum status deliver_from_client(void *context, const struct record *record) {
    struct loop *loop = context;
    if (record->kind == RECORD_CLIENT_REQUEST) {
        enum status status = put_request(loop, (const struct record_client_request *)record);
        if (status) return status;
    } else {
        if (loop_drop_request(loop, record_connection(record)))
            return STATUS_OK; /* no machine has received it */
        record_queue_force(&loop->inboxes[GATEWAY], record);
    }
    ask_turn(loop);
    return STATUS_OK;
}

static void on_answers(evutil_socket_t file, short what, void *context) {
    struct loop_worker *own = context;
    worker_take(own->worker, &own->loop->inboxes[own->machine]);
    ask_turn(own->loop);
}

static uint32_t count_open(const struct loop *loop) {
    return loop->http[0] ? loop_open_exchanges(loop) : request_set_count(&loop->requests);
}

/* Called at the deadline: a client does not read, a unit does not respond, or a step does not end.
 */
static void on_finish_by(evutil_socket_t file, short what, void *context) {
    struct loop *loop = context;
    if (loop->http[0])
        log_say(LOG_WARNING, "process",
                "requests have not ended in time, their connections are cut off requests=%u",
                count_open(loop));
    else
        log_say(LOG_WARNING, "process",
                "requests have not ended in time, their gateway has others go on requests=%u",
                count_open(loop));
    loop_end(loop, STATUS_OK, NULL);
}

static void loop_on_signal(evutil_socket_t number, short what, void *context) {
    struct loop *loop = context;
    if (loop->draining) {
        log_say(LOG_WARNING, "process", "ends at once signal=%d", (int)number);
        log_finish();
        _exit(128 + (int)number);
    }
    loop->draining = true;
    int64_t wait_ns = loop->parts->finish_ns_max ? loop->parts->finish_ns_max : FINISH_NS_MAX;
    log_say(LOG_INFO, "process",
            "finishes running requests and ends, a second signal ends at once signal=%d "
            "requests=%u wait_s=%.0f",
            (int)number, count_open(loop), (double)wait_ns * 1e-9);
    service_notify("STOPPING=1");
    struct timeval wait = {(time_t)(wait_ns / 1000000000),
                           (suseconds_t)(wait_ns % 1000000000 / 1000)};
    event_add(loop->finish_by, &wait);
    struct record_drain drain = {.record = record_head(RECORD_DRAIN, sizeof drain)};
    /* A unit in its gateway's process still accepts the requests that the gateway has admitted. */
    int first = has_machine(loop, GATEWAY) ? GATEWAY : UNIT;
    if (has_machine(loop, first)) /* otherwise it supervises units, which get their own signal */
        record_queue_force(&loop->inboxes[first], &drain.record);
    for (int i = 0; i < HTTP_LISTENER_COUNT; i++)
        if (loop->http[i]) http_server_drain(loop->http[i]);
    ask_turn(loop);
}

static void on_reload(evutil_socket_t number, short what, void *context) {
    struct loop *loop = context;
    const struct record *record = loop->parts->reload(loop->parts->reload_context);
    if (record) record_queue_force(&loop->inboxes[GATEWAY], record);
    ask_turn(loop);
}

/* ---- life ---- */

static void on_log_wake(evutil_socket_t file, short what, void *context) {
    (void)context; /* the event only causes a turn */
}

/* Limits clients' connections, so that files are left for units' connections and the KV storage.
 * libzmq even ends the process if it cannot accept a connection over ipc. */
static uint32_t loop_clients_max(uint64_t files, uint32_t wanted) {
    uint64_t others = files / 2 < OTHER_FILES ? files / 2 : OTHER_FILES;
    return files - others < wanted ? (uint32_t)(files - others) : wanted;
}

/* Called between records, when the gateway is idle. */
static enum admission loop_admit(void *context, const struct record_client_request *head) {
    const struct loop_parts *parts = ((struct loop *)context)->parts;
    return parts->admit ? parts->admit(parts->admit_context, head) : ADMISSION_KEYLESS;
}

static enum status open_http(struct loop *loop, const struct http_server_options *http,
                             uint32_t http_count, uint64_t files, struct error *error) {
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < http_count && !status; i++) {
        struct http_server_options options = http[i];
        options.deliver = deliver_from_client;
        options.admit = loop_admit;
        options.deliver_context = options.admit_context = loop;
        options.connections_max = loop_clients_max(files, options.connections_max);
        status = http_server_open(&options, loop->base, &loop->http[i], error);
    }
    return status;
}

enum status loop_open(const struct http_server_options *http, uint32_t http_count,
                      struct loop **loop_out, struct error *error) {
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop) return error_set(error, STATUS_NO_MEMORY, "no memory for the event loop");
    uint64_t files = file_limit_raise(UINT64_MAX);
    signal(SIGPIPE, SIG_IGN);
    loop->inboxes[GATEWAY].bytes_max = INBOX_BYTES_MAX;
    loop->small.bytes_max = SMALL_BYTES_MAX;
    loop->large.bytes_max = LARGE_BYTES_MAX;
    loop->small.bytes_least = loop->large.bytes_least = LARGE_REQUEST_BYTES;
    loop->inboxes[UNIT].bytes_max = BEHIND_BYTES_MAX;
    loop->base = event_base_new();
    if (loop->base) {
        loop->turn = event_new(loop->base, -1, 0, on_turn, loop);
        loop->wake = evtimer_new(loop->base, on_turn, loop);
    }
    if (loop->base) {
        loop->retry = evtimer_new(loop->base, loop_on_retry, loop);
        loop->finish_by = evtimer_new(loop->base, on_finish_by, loop);
        loop->sign = evtimer_new(loop->base, loop_on_sign, loop);
        loop->log_wake = evtimer_new(loop->base, on_log_wake, NULL);
    }
    enum status status = STATUS_OK;
    if (!loop->base || !loop->turn || !loop->wake || !loop->retry || !loop->finish_by ||
        !loop->sign || !loop->log_wake)
        status = error_set(error, STATUS_IO, "cannot start the event loop: no memory or files");
    if (!status) status = open_http(loop, http, http_count, files, error);
    if (status)
        loop_close(loop);
    else
        *loop_out = loop;
    return status;
}

/* `function` NULL: the loop has no such worker. */
static enum status start_worker(struct loop *loop, struct loop_worker *own, int machine,
                                const char *name, worker_function *function, void *context,
                                struct error *error) {
    if (!function) return STATUS_OK;
    *own = (struct loop_worker){.loop = loop, .machine = machine};
    enum status status = worker_open(name, function, context, &own->worker, error);
    if (status) return status;
    own->answers =
        event_new(loop->base, worker_file(own->worker), EV_READ | EV_PERSIST, on_answers, own);
    event_add(own->answers, NULL);
    return STATUS_OK;
}

static enum status start_workers(struct loop *loop, const struct loop_parts *parts,
                                 struct error *error) {
    enum status status = start_worker(loop, &loop->engine, UNIT, "engine", parts->engine,
                                      parts->engine_context, error);
    if (!status && loop->engine.worker) worker_call(loop->engine.worker);
    if (!status)
        status = start_worker(loop, &loop->tokenizer, GATEWAY, "tokenizer", parts->tokenize,
                              parts->tokenize_context, error);
    if (!status)
        status = start_worker(loop, &loop->grammar, GATEWAY, "grammar", parts->constrain,
                              parts->constrain_context, error);
    if (!status)
        status = start_worker(loop, &loop->ledger, GATEWAY, "ledger", parts->ledger,
                              parts->ledger_context, error);
    if (!status && loop->ledger.worker) worker_call(loop->ledger.worker);
    return status;
}

/* Opens a wire to listen on, or to one gateway. */
static enum status loop_open_link(struct loop *loop, struct bytes address, struct error *error) {
    struct wire_options options = loop->parts->wire;
    struct loop_link *link = &loop->links[loop->link_count];
    *link = (struct loop_link){.loop = loop, .address = strndup(address.data, address.count)};
    check(link->address);
    options.address = link->address;
    options.listens = has_machine(loop, GATEWAY);
    options.kinds = record_kinds(options.listens ? WAY_UNIT_TO_GATEWAY : WAY_GATEWAY_TO_UNIT);
    options.context = link;
    options.joined = loop_on_joined;
    options.take = loop_on_wire;
    options.lost = loop_on_lost;
    options.may_take = loop_may_take;
    enum status status = wire_open(&options, loop->base, &link->wire, error);
    if (status)
        free(link->address);
    else
        loop->link_count++;
    return status;
}

static enum status start_wires(struct loop *loop, struct error *error) {
    const struct loop_parts *parts = loop->parts;
    struct bytes rest = {parts->wire.address, 0}, address;
    enum status status = STATUS_OK;
    if (!parts->wire.address) return STATUS_OK;
    rest.count = strlen(rest.data);
    while (!status && wire_next_address(&rest, &address)) {
        if (loop->link_count == LOOP_GATEWAYS_MAX)
            return error_set(error, STATUS_INVALID,
                             "'%.80s': a unit connects to %d gateways at most", parts->wire.address,
                             LOOP_GATEWAYS_MAX);
        status = loop_open_link(loop, address, error);
    }
    if (!status && has_machine(loop, GATEWAY) && !parts->waits_for_unit)
        log_say(LOG_INFO, "wire", "units are listened to address=%s",
                wire_address(loop->links[0].wire));
    return status;
}

/* In a whole server the unit connects at once. */
static void join_own_unit(struct loop *loop) {
    if (has_machine(loop, GATEWAY) && has_machine(loop, UNIT))
        report_link(loop, RECORD_UNIT_JOINED, THE_UNIT);
}

/* Processes the current events and writes their log lines. */
static void turn_once(struct loop *loop) {
    event_base_loop(loop->base, EVLOOP_ONCE);
    log_turn();
    int64_t next_ns = log_next_ns();
    if (next_ns == INT64_MAX) return;
    int64_t wait_us = (next_ns - clock_now_ns()) / 1000 + 1;
    if (wait_us < 0) wait_us = 0;
    event_add(loop->log_wake, &(struct timeval){.tv_sec = (time_t)(wait_us / 1000000),
                                                .tv_usec = (suseconds_t)(wait_us % 1000000)});
}

enum status loop_run(struct loop *loop, const struct loop_parts *parts, struct error *error) {
    loop->parts = parts;
    loop->fleet.job_of = parts->job_of;
    loop->fleet.job_context = parts->job_context;
    loop->fleet.number_of = parts->number_of;
    loop->fleet.number_context = parts->number_context;
    loop->machines[GATEWAY] = parts->gateway;
    loop->machines[UNIT] = parts->unit;
    enum status status = start_workers(loop, parts, error);
    if (!status) status = start_wires(loop, error);
    if (!status && !parts->waits_for_unit) status = start_http(loop, error);
    if (status) return status;
    loop->terminate = evsignal_new(loop->base, SIGTERM, loop_on_signal, loop);
    loop->interrupt = evsignal_new(loop->base, SIGINT, loop_on_signal, loop);
    loop->drain = evsignal_new(loop->base, SIGUSR2, loop_on_signal, loop); /* forwarded by mpirun */
    event_add(loop->terminate, NULL);
    event_add(loop->interrupt, NULL);
    event_add(loop->drain, NULL);
    if (parts->reload) {
        loop->reload = evsignal_new(loop->base, SIGHUP, on_reload, loop);
        event_add(loop->reload, NULL);
    }
    join_own_unit(loop);
    if (loop->http[0] && !parts->waits_for_unit) loop_say_ready(loop);
    ask_turn(loop); /* so that the unit connects */
    log_gather();
    while (!loop_is_done(loop))
        turn_once(loop);
    log_say(LOG_INFO, "process", "ends");
    log_finish();
    if (loop->ended && loop->status) *error = loop->error;
    return loop->ended ? loop->status : STATUS_OK;
}

void loop_notify_unit(struct loop *loop, const struct record *record) {
    record_queue_force(&loop->inboxes[UNIT], record);
    ask_turn(loop);
}

void loop_end(struct loop *loop, enum status status, const struct error *error) {
    if (loop->ended) return;
    loop->ended = true;
    loop->status = status;
    if (error) loop->error = *error;
    event_base_loopbreak(loop->base);
}

struct event_base *loop_base(const struct loop *loop) {
    return loop->base;
}

static void free_event(struct event *event) {
    if (event) event_free(event);
}

/* Returns false if it is still working. */
static bool end_worker(struct loop_worker *own) {
    bool ended = true;
    free_event(own->answers);
    if (own->worker) ended = worker_close(own->worker, WORKER_CLOSE_NS);
    *own = (struct loop_worker){.loop = own->loop};
    return ended;
}

bool loop_end_engine(struct loop *loop) {
    loop->stuck |= !end_worker(&loop->engine);
    return !loop->stuck;
}

/* Waits until the ledger has written its records, up to a timeout. */
static void await_ledger(struct worker *ledger) {
    int64_t until = clock_now_ns() + WORKER_CLOSE_NS;
    while (worker_waiting_bytes(ledger) && clock_now_ns() < until)
        usleep(1000);
}

bool loop_close(struct loop *loop) {
    bool ended = loop_end_engine(loop);
    ended &= end_worker(&loop->tokenizer);
    ended &= end_worker(&loop->grammar);
    if (loop->ledger.worker) await_ledger(loop->ledger.worker);
    ended &= end_worker(&loop->ledger);
    for (uint32_t i = 0; i < loop->link_count; i++) {
        wire_close(loop->links[i].wire);
        free(loop->links[i].address);
    }
    for (int i = 0; i < HTTP_LISTENER_COUNT; i++)
        if (loop->http[i]) http_server_close(loop->http[i]);
    for (uint32_t i = 0; i < loop->peer_count; i++)
        record_queue_clear(&loop->peers[i].waiting);
    free(loop->peers);
    record_queue_clear(&loop->hello);
    record_queue_clear(&loop->load);
    record_queue_clear(&loop->experts);
    request_turns_clear(&loop->small);
    request_turns_clear(&loop->large);
    request_set_close(&loop->requests);
    request_notes_close(&loop->notes);
    fleet_lines_close(&loop->fleet);
    for (int i = 0; i < MACHINE_COUNT; i++)
        record_queue_clear(&loop->inboxes[i]);
    free_event(loop->turn);
    free_event(loop->wake);
    free_event(loop->retry);
    free_event(loop->finish_by);
    free_event(loop->sign);
    free_event(loop->log_wake);
    free_event(loop->terminate);
    free_event(loop->interrupt);
    free_event(loop->drain);
    free_event(loop->reload);
    if (loop->base) event_base_free(loop->base);
    free(loop);
    return ended;
}
