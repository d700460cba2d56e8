/* SPDX-License-Identifier: Apache-2.0
 * The state of the simulator: its gateways, units and clients, and the messages between them. These
 * modules use it: simulator.c (a run, and the invariants at its end), simulator_units.c and
 * simulator_gateways.c (the hosts of the state machines), simulator_clients.c (requests and
 * answers), simulator_transfer, simulator_storage and simulator_engine (transfers, storage,
 * computation).
 *
 * A gateway or unit runs when something is due there: it receives all records that have arrived,
 * and then steps. Records between them take the network latency and keep their order.
 */
#pragma once

#include "base/checksum.h"
#include "base/format.h"
#include "base/hash.h"
#include "serving/gateway/gateway.h"
#include "serving/unit/rank_units.h"
#include "simulate/kernel/event_queue.h"
#include "simulate/kernel/post.h"
#include "simulate/simulator/simulator.h"
#include "simulate/simulator/simulator_engine.h"
#include "simulate/simulator/simulator_faults.h"
#include "simulate/simulator/simulator_storage.h"
#include "simulate/simulator/simulator_transfer.h"

enum simulator_event {
    SIMULATOR_EVENT_UNIT,         /* the alarm of the unit `index` */
    SIMULATOR_EVENT_GATEWAY,      /* the alarm of the gateway `index` */
    SIMULATOR_EVENT_ASK,          /* the next request reaches a gateway */
    SIMULATOR_EVENT_TRANSFER_OUT, /* the sender of the transfer `index` receives its end */
    SIMULATOR_EVENT_TRANSFER_IN,  /* the receiver receives its end */
    SIMULATOR_EVENT_STORAGE,      /* the job `index` of the storage is answered */
    SIMULATOR_EVENT_FAULT,        /* a fault of the options begins or ends; index: the fault */
    SIMULATOR_EVENT_NOTICE,       /* the gateway `index` finds the connection `stamp` lost */
    SIMULATOR_EVENT_WARM          /* counting begins */
};

struct simulator_unit {
    const struct simulator_unit_kind *kind;
    struct unit_options options;
    uint32_t index, life;
    bool up;
    uint32_t connected;    /* number of connections so far */
    uint32_t *connections; /* [gateways] unique number of the current connection; 0: none */
    char *memory;          /* of the machine */
    size_t memory_bytes;
    struct rank_units *units;
    struct machine machine;
    struct post inbox;
    struct simulator_engine engine;
    struct step_clock *clock;
    struct event_alarm alarm; /* when it runs next */
    int64_t step_ns, done_ns; /* start and end of the current step; MACHINE_NEVER: none */
    int64_t reported_ns;      /* the duration reported to the unit; 0: it must not learn from it */
    bool in_step, begins;     /* begins: all plans are there, but the duration is unknown */
    struct step_load sum;     /* of the current step, over all ranks */
    struct request_id *open;  /* [open_count] requests that it has not ended */
    uint32_t open_count, open_max;
    char *open_memory;
    struct map open_places;      /* index of each request in `open` */
    struct record *hello, *load; /* the last ones sent */
    int64_t load_ns;             /* since when the page counts below hold */
    uint64_t pages_held, pages_cached;
    uint64_t preempted;        /* in earlier incarnations */
    uint64_t preempted_before; /* before counting began, like `moves` */
    uint64_t moves;
};

struct simulator_gateway {
    uint32_t index;
    struct gateway *gateway;
    struct machine machine;
    struct post inbox;
    struct event_alarm alarm;
    int64_t busy_ns; /* it can receive no request until then */
};

struct simulator_client { /* a request in progress */
    uint64_t number;      /* from 1; 0: this entry is free */
    int64_t arrival_ns, first_ns, last_ns;
    uint32_t prompt_tokens, answer_tokens, stored_tokens, reported_tokens, hit_tokens;
    bool standing, waits; /* waits: a standing request without a token yet */
    bool queue_full;      /* a unit refused it because its queue was full */
};

struct simulator_page_sums { /* of a role's ranks, over time: pages times ns */
    double held, cached, total;
};

struct simulator_world {
    const struct simulator_options *options;
    struct simulator_report *report;
    int64_t now_ns;
    int64_t end_ns;    /* MACHINE_NEVER: when all requests are answered */
    int64_t rest_ns;   /* end of the last answer so far */
    bool counts;       /* the current time is measured */
    int64_t sample_ns; /* the next sample */
    int64_t network_ns, request_ns, token_ns;
    double block_bytes;
    struct event_queue events;
    struct tokenizer *tokenizer;
    struct simulator_unit *units;       /* [unit_count] */
    struct simulator_gateway *gateways; /* [options.gateways] */
    uint32_t unit_count, rows_max;
    struct simulator_transfers transfers;
    struct simulator_disks storage;
    struct step_result *result;       /* scratch space for the result of a rank */
    struct simulator_client *clients; /* [client_max] */
    uint32_t *free_clients;           /* [free_count] */
    uint32_t client_max, free_count;
    uint64_t asked;                /* requests so far, including standing ones */
    struct simulator_request next; /* reaches a gateway at SIMULATOR_EVENT_ASK */
    bool has_next;
    uint32_t standing_waits, standing_max; /* standing requests without a token yet; their
                                            * limit */
    char *envelope; /* scratch space for a forwarded request or a prompt's tokens */
    char *scratch;  /* scratch space within a function */
    size_t scratch_bytes;
    struct simulator_page_sums pages[UNIT_ROLE_COUNT];
};

/* Records a breach. Only the first text is kept. */
static inline void simulator_breach(struct simulator_world *world, const char *text) {
    struct simulator_report *report = world->report;
    if (!report->breach[0])
        format_text(report->breach, sizeof report->breach, "%s (after %lld us)", text,
                    (long long)(world->now_ns / 1000));
}

/* Adds a record that a machine receives to the digest and the count. */
static inline void simulator_note(struct simulator_world *world, const struct record *record) {
    struct simulator_report *report = world->report;
    report->records++;
    report->digest =
        hash_mix(report->digest ^ checksum_of(record, record->bytes) ^ (uint64_t)world->now_ns);
}

/* Makes the unit or gateway with this alarm run at due_ns or earlier, but not before now. */
static inline void simulator_wake(struct simulator_world *world, struct event_alarm *alarm,
                                  int64_t due_ns) {
    event_queue_alarm_set(alarm, &world->events, due_ns < world->now_ns ? world->now_ns : due_ns);
}

/* True while prompts and transfers take no time. */
static inline bool simulator_settles(const struct simulator_world *world) {
    return world->now_ns < world->options->settle_ns;
}

/* ---- simulator_units.c ---- */

size_t simulator_units_bytes(const struct simulator_options *options);
enum status simulator_units_open(struct simulator_world *world, struct arena *arena,
                                 struct error *error) MUST_USE;

/* Handles everything that is due at the unit. */
void simulator_units_run(struct simulator_world *world, struct simulator_unit *unit);

/* Start, end, disconnect and connect the unit. With `noticed`, gateways notice its loss at once,
 * otherwise after a timeout. A unit that is cut off cancels the requests of the gateway and
 * connects again later. */
void simulator_units_start(struct simulator_world *world, struct simulator_unit *unit);
void simulator_units_kill(struct simulator_world *world, struct simulator_unit *unit, bool noticed);
void simulator_units_cut(struct simulator_world *world, struct simulator_unit *unit,
                         uint32_t gateway);
void simulator_units_connect(struct simulator_world *world, struct simulator_unit *unit,
                             uint32_t gateway);

/* Deliver the end of a transfer, or an answer of the storage. */
void simulator_units_end_transfer(struct simulator_world *world, const struct event *event);
void simulator_units_end_job(struct simulator_world *world, const struct event *event);

/* Begins counting. Earlier counts are remembered, to be subtracted. */
void simulator_units_begin(struct simulator_world *world);

/* Ends counting and adds the units' own counters to the report. */
void simulator_units_count(struct simulator_world *world);

/* The current share of each role's KV pages in use. */
void simulator_units_sample(const struct simulator_world *world,
                            double shares_out[UNIT_ROLE_COUNT]);

/* Checks at the end of a run that the units hold nothing. */
void simulator_units_verify(struct simulator_world *world);

/* ---- simulator_gateways.c ---- */

size_t simulator_gateways_bytes(const struct simulator_options *options);
enum status simulator_gateways_open(struct simulator_world *world, struct arena *arena,
                                    struct error *error) MUST_USE;
void simulator_gateways_run(struct simulator_world *world, struct simulator_gateway *gateway);

/* Sends a unit's record to the gateway `index`. */
void simulator_gateways_send(struct simulator_world *world, uint32_t index, uint32_t connection,
                             const struct record *record);

/* Sends a UNIT_JOINED or UNIT_LOST. */
void simulator_gateways_report(struct simulator_world *world, uint32_t index, enum record_kind kind,
                               uint32_t connection);

/* Delivers the request to the gateway now. */
void simulator_gateways_ask(struct simulator_world *world, struct simulator_gateway *gateway,
                            const struct record *request);
void simulator_gateways_verify(struct simulator_world *world);

/* ---- simulator_clients.c ---- */

size_t simulator_clients_bytes(const struct simulator_options *options);
bool simulator_clients_open(struct simulator_world *world, struct arena *arena);

/* Gets the next request from the source and schedules it. */
void simulator_clients_fetch(struct simulator_world *world);

/* The arrival time of a request, given its arrival time without crowds. */
int64_t simulator_clients_arrival(const struct simulator_options *options, int64_t arrival_ns);

/* The record of the scheduled request, and its gateway. */
const struct record *simulator_clients_ask(struct simulator_world *world,
                                           struct simulator_gateway **gateway_out);

/* The record with the tokens of a prompt, which answers a TOKENIZE. */
const struct record *simulator_clients_tokenize(struct simulator_world *world,
                                                const struct record_tokenize *tokenize);

/* The number of leading prompt tokens that the storage had before the run. */
uint32_t simulator_clients_stored(struct simulator_world *world, struct request_id id);

/* Prefetches the data that a simulator_clients_notice will soon need. */
void simulator_clients_prefetch(const struct simulator_world *world, const struct record *record);

/* Takes note of a unit's record about a request when it reaches a gateway. */
void simulator_clients_notice(struct simulator_world *world, const struct record *record);

/* Receives a gateway's record for a client. */
void simulator_clients_receive(struct simulator_world *world, const struct record *record);
void simulator_clients_verify(struct simulator_world *world);
