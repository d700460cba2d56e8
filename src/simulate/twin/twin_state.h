/* SPDX-License-Identifier: Apache-2.0
 * The inside of the twin: its gateways, its units, its clients, and what passes between them. The
 * files around it: twin.c (a run, and what must hold at its end), twin_units.c and twin_gateways.c
 * (the hosts of machines), twin_clients.c (requests, and what they are told), twin_transfer,
 * twin_storage and twin_engine (what would travel, be stored, compute).
 *
 * Gateways and units run when something is due: then they take what has arrived, and step. What
 * they say to each other takes the network's latency and keeps its order.
 */
#ifndef SIMULATE_TWIN_TWIN_STATE_H
#define SIMULATE_TWIN_TWIN_STATE_H

#include "serving/gateway/gateway.h"
#include "serving/unit/rank_units.h"
#include "simulate/twin/event_queue.h"
#include "simulate/twin/twin.h"
#include "simulate/twin/twin_engine.h"
#include "simulate/twin/twin_faults.h"
#include "simulate/twin/twin_post.h"
#include "simulate/twin/twin_storage.h"
#include "simulate/twin/twin_transfer.h"

enum twin_event {
    TWIN_EVENT_UNIT,         /* index: of the unit, whose alarm it is */
    TWIN_EVENT_GATEWAY,      /* index: of the gateway; stamp: the time, if it is still meant */
    TWIN_EVENT_ASK,          /* the next request reaches a gateway */
    TWIN_EVENT_TRANSFER_OUT, /* index: of the transfer, whose end is told to the sender */
    TWIN_EVENT_TRANSFER_IN,  /* to the receiver */
    TWIN_EVENT_STORAGE,      /* index: of the storage's job, whose answer is told */
    TWIN_EVENT_FAULT,        /* index: of the options' fault */
    TWIN_EVENT_NOTICE,       /* index: of the gateway; stamp: a connection that it finds lost */
    TWIN_EVENT_WARM          /* counting begins */
};

struct twin_unit {
    const struct twin_unit_kind *kind;
    struct unit_options options;
    uint32_t index, life;
    bool up;
    uint32_t connected;    /* times so far */
    uint32_t *connections; /* [gateways] the unit's name there, another one each time; 0: none */
    char *memory;          /* of the machine */
    size_t memory_bytes;
    struct rank_units *units;
    struct machine machine;
    struct twin_post inbox;
    struct twin_engine engine;
    struct step_clock *clock;
    struct event_alarm alarm;   /* when it runs next */
    int64_t step_ns, done_ns;   /* the step at hand began, and is told of; MACHINE_NEVER: none is */
    int64_t told_ns;            /* how long it took, as the unit is told; 0: nothing to learn */
    bool in_step, begins;       /* begins: its plans are there, and it has no time yet */
    struct twin_engine_sum sum; /* of the step at hand */
    struct request_id *open;    /* [open_count] requests that it was given, and has not ended */
    uint32_t open_count, open_max;
    char *open_memory;
    struct map open_places;      /* of a request in `open` */
    struct record *hello, *load; /* the last ones */
    int64_t load_ns;             /* the pages below stand since then */
    uint64_t pages_held, pages_cached;
    uint64_t preempted;        /* in lives before */
    uint64_t preempted_before; /* before counting began, likewise below */
    uint64_t moves;
    uint64_t computed; /* prompts' tokens, since counting began */
};

struct twin_gateway {
    uint32_t index;
    struct gateway *gateway;
    struct machine machine;
    struct twin_post inbox;
    struct event_alarm alarm;
    int64_t busy_ns;    /* it takes the next request not before */
    uint32_t tokenizes; /* 1 + the client whose prompt it wants; 0: none */
};

struct twin_client { /* a request on its way */
    uint64_t number; /* from 1; 0: the place is free */
    int64_t arrival_ns, first_ns, last_ns;
    uint32_t prompt_tokens, answer_tokens, stored_tokens, told_tokens, hit_tokens;
    bool standing, waits; /* waits: a standing one that has no token yet */
    bool queue_full;      /* a unit refused it for that */
};

struct twin_page_sums { /* over time, of a role's ranks: pages times ns */
    double held, cached, total;
};

struct twin_world {
    const struct twin_options *options;
    struct twin_report *report;
    int64_t now_ns;
    int64_t end_ns;    /* MACHINE_NEVER: when all are answered */
    int64_t rest_ns;   /* the last answer's end so far */
    bool counts;       /* now is measured time */
    int64_t sample_ns; /* the next moment that somebody wants to hear of */
    int64_t network_ns, request_ns, token_ns;
    double block_bytes;
    struct event_queue events;
    struct tokenizer *tokenizer;
    struct twin_unit *units;       /* [unit_count] */
    struct twin_gateway *gateways; /* [options.gateways] */
    uint32_t unit_count, rows_max;
    struct twin_transfers transfers;
    struct twin_disks storage;
    struct step_result *result;  /* scratch: a rank's answer */
    struct twin_client *clients; /* [client_max] */
    uint32_t *free_clients;      /* of them free_count */
    uint32_t client_max, free_count;
    uint64_t asked;           /* requests so far, standing ones included */
    struct twin_request next; /* that reaches a gateway at its event */
    bool has_next;
    uint32_t standing_waits, standing_max; /* that have no token yet; at once */
    char *envelope; /* scratch: a request or a prompt's tokens, on their way */
    char *scratch;  /* for what does not leave a function */
    size_t scratch_bytes;
    struct twin_page_sums pages[UNIT_ROLE_COUNT];
};

/* Says what was found not to hold. The first such text is kept. */
void twin_breach(struct twin_world *world, const char *text);

/* A machine takes a record: for the digest and the count. */
void twin_note(struct twin_world *world, const struct record *record);

/* True while prompts and transfers take no time. */
static inline bool twin_settles(const struct twin_world *world) {
    return world->now_ns < world->options->settle_ns;
}

/* ---- twin_units.c ---- */

size_t twin_units_bytes(const struct twin_options *options);
enum status twin_units_open(struct twin_world *world, struct arena *arena,
                            struct error *error) MUST_USE;

/* Does all that is due at the unit. */
void twin_units_run(struct twin_world *world, struct twin_unit *unit);

/* The unit is to run at that time, or earlier. */
void twin_units_wake(struct twin_world *world, struct twin_unit *unit, int64_t due_ns);

/* A record of a gateway's leaves for the unit with that connection. */
void twin_units_send(struct twin_world *world, uint32_t gateway, uint32_t connection,
                     const struct record *record);

/* Lives and connections. `noticed`: gateways see at once that it is gone; else after a while. A
 * unit that is cut off cancels what the gateway had given it, and connects again later. */
void twin_units_start(struct twin_world *world, struct twin_unit *unit);
void twin_units_kill(struct twin_world *world, struct twin_unit *unit, bool noticed);
void twin_units_cut(struct twin_world *world, struct twin_unit *unit, uint32_t gateway);
void twin_units_connect(struct twin_world *world, struct twin_unit *unit, uint32_t gateway);

/* A transfer's end, the storage's answer is told. */
void twin_units_end_transfer(struct twin_world *world, const struct event *event);
void twin_units_end_job(struct twin_world *world, const struct event *event);

/* Counting begins: what was counted before is set apart. */
void twin_units_begin(struct twin_world *world);

/* Counting ends: what the units counted themselves. */
void twin_units_count(struct twin_world *world);

/* The share of KV pages that each role holds now. */
void twin_units_sample(const struct twin_world *world, double shares_out[UNIT_ROLE_COUNT]);

/* At the end of all: nothing is held. */
void twin_units_judge(struct twin_world *world);

/* ---- twin_gateways.c ---- */

size_t twin_gateways_bytes(const struct twin_options *options);
enum status twin_gateways_open(struct twin_world *world, struct arena *arena,
                               struct error *error) MUST_USE;
void twin_gateways_run(struct twin_world *world, struct twin_gateway *gateway);
void twin_gateways_wake(struct twin_world *world, struct twin_gateway *gateway, int64_t due_ns);

/* A unit's record leaves for the gateway of this index. */
void twin_gateways_send(struct twin_world *world, uint32_t index, uint32_t connection,
                        const struct record *record);

/* UNIT_JOINED or UNIT_LOST. */
void twin_gateways_tell(struct twin_world *world, uint32_t index, enum record_kind kind,
                        uint32_t connection);

/* The request reaches a gateway now. */
void twin_gateways_ask(struct twin_world *world, struct twin_gateway *gateway,
                       const struct record *request);
void twin_gateways_judge(struct twin_world *world);

/* ---- twin_clients.c ---- */

size_t twin_clients_bytes(const struct twin_options *options);
bool twin_clients_open(struct twin_world *world, struct arena *arena);

/* The next request is fetched from the source, and will come at its time. */
void twin_clients_fetch(struct twin_world *world);

/* It has come. */
void twin_clients_ask(struct twin_world *world);

/* A prompt's tokens are wanted: the record that brings them. */
const struct record *twin_clients_tokenize(struct twin_world *world,
                                           const struct record_tokenize *tokenize);

/* Tokens of the request's prompt that the storage had before the run. */
uint32_t twin_clients_stored(struct twin_world *world, struct request_id id);

/* As twin_clients_notice will, soon. */
void twin_clients_prefetch(const struct twin_world *world, const struct record *record);

/* A unit's record about a request reaches a gateway. */
void twin_clients_notice(struct twin_world *world, const struct record *record);

/* A gateway's record for a client. */
void twin_clients_hear(struct twin_world *world, const struct record *record);
void twin_clients_judge(struct twin_world *world);

#endif
