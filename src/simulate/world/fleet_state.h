/* SPDX-License-Identifier: Apache-2.0
 * The state of a simulated fleet: its units, its gateways, and the messages between them. These
 * modules use it: fleet_world (a run, and the invariants at its end), fleet_units (hosts of units),
 * fleet_gateway (hosts of gateways, and clients), fleet_faults, fleet_inside (checks inside a
 * unit), and in some runs fleet_hosts (machines of the units) and fleet_managers (starts and ends
 * units by load).
 */
#pragma once

#include "base/format.h"
#include "serving/unit/rank_units.h"
#include "simulate/clients/fleet_accounts.h"
#include "simulate/clients/fleet_clients.h"
#include "simulate/clients/fleet_ledger.h"
#include "simulate/clients/fleet_shares.h"
#include "simulate/engine/fleet_token_oracle.h"
#include "simulate/kernel/fault_timetable.h"
#include "simulate/kernel/post.h"
#include "simulate/pages/fleet_carriers.h"
#include "simulate/pages/fleet_storage.h"
#include "simulate/world/fleet_hosts.h"
#include "simulate/world/fleet_managers.h"
#include "simulate/world/fleet_world.h"

#define REST_NS (300 * FLEET_SECOND)      /* no work may be left after this time */
#define SETTLED_NS (5 * FLEET_SECOND / 2) /* idle time after which all reports have arrived */
#define SIGN_NS (FLEET_SECOND / 2)
#define DAY_NS (20 * FLEET_SECOND) /* of a fleet with a manager */

enum { OPEN_MAX = 128, SAID_BYTES = 1024 };

#define RESULT_BYTES ((size_t)256 << 10)

struct fleet_submitted {
    struct request_id id;
    uint32_t prompt_count;
    uint32_t connection; /* 0: its gateway is gone, and gets no more reports */
};

struct fleet_gateway_link { /* from a unit to a gateway */
    uint32_t connection;    /* 0: none; otherwise unique over all gateways */
    int64_t in_ns, out_ns;  /* arrival of the last message in each direction */
    int64_t connect_ns;     /* when it connects next, or MACHINE_NEVER */
};

/* The row of a rank that waits for a load in the current step. */
struct fleet_wait {
    uint32_t asked; /* number of blocks of the load; 0: no row waits */
    uint32_t slot;  /* of the row */
    bool in_vain;   /* the engine has stopped waiting */
};

struct fleet_unit_host {
    uint32_t index;
    char *memory; /* of the unit and the engines, in the current incarnation */
    struct rank_units *units;
    struct machine machine;
    struct fleet_engine engines[FLEET_RANKS_MAX];
    struct post inbox;
    struct post wires; /* messages to the KV agents of its ranks */
    uint32_t role;     /* enum unit_role */
    uint32_t numerics; /* of the current incarnation */
    uint32_t life;
    /* when it started: gateways alive, and gateway incarnations so far */
    uint32_t gateways_found, gateway_lives;
    bool up, draining;
    bool goes; /* draining, and ends when it has no requests; otherwise it may be called back */
    uint32_t number;                /* assigned by the manager, if there is one */
    bool ends;                      /* ordered to end, so it is not called back */
    bool dead[FLEET_RANKS_MAX];     /* ranks that are dead while the unit continues */
    bool was_dead[FLEET_RANKS_MAX]; /* ranks that have died in this incarnation */
    uint32_t dies;                  /* 1 + the rank that dies during the next step; 0: none */
    bool failing;                   /* the current step fails */
    bool breaks; /* the current step is interrupted; the living ranks will run its rows again */
    bool reports[FLEET_RANKS_MAX]; /* the current step reports its progress to the carriers */
    struct fleet_wait waits[FLEET_RANKS_MAX];
    bool looks;            /* it checks whether the loads that its rows wait for are complete */
    uint32_t step_rows;    /* of all ranks, in the current step */
    int64_t wait_until_ns; /* rows wait for their loads until then */
    int64_t behind_ns;     /* end of the step if the wait is in vain */
    int64_t step_began_ns;
    struct fleet_gateway_link links[FLEET_GATEWAYS_MAX];
    int64_t wire_ns[FLEET_RANKS_MAX];
    int64_t frozen_ns;                     /* frozen until then */
    int64_t up_ns;                         /* time of its restart; MACHINE_NEVER */
    int64_t sign_ns;                       /* of the next heartbeat */
    struct fleet_submitted open[OPEN_MAX]; /* requests that it has not ended */
    uint32_t open_count;
    _Alignas(8) char hello[SAID_BYTES], load[SAID_BYTES]; /* the last ones sent */
};

struct fleet_gateway_host {
    char *memory;
    struct gateway *gateway; /* NULL: dead */
    struct machine machine;
    struct post inbox;
    struct fleet_shares shares;
    int64_t up_ns; /* time of its restart; MACHINE_NEVER */
};

struct world {
    struct fleet_world_options options;
    struct fleet_world_report *report;
    struct fleet_log *log;
    int64_t now_ns;
    int64_t healed_ns, asked_ns; /* end of faults; end of new clients */
    struct fleet_dice dice;
    uint32_t connections, turns;
    struct unit_options unit_options;
    size_t unit_bytes;
    uint32_t ranks, unit_count;
    struct fleet_dice renewals; /* units that restart with other numerics */
    struct fleet_unit_host units[FLEET_UNITS_MAX];
    struct fleet_carriers carriers;
    struct fleet_storage storage;
    struct fleet_ledger ledger;
    struct gateway_options *gateway_options;
    uint32_t gateway_count;
    struct fleet_gateway_host gateways[FLEET_GATEWAYS_MAX];
    uint32_t gateway_lives;   /* incarnations so far */
    struct fleet_dice crowds; /* for whether the outbox of a gateway is nearly full */
    struct fleet_dice drains; /* for whether a draining unit ends at once */
    struct fleet_token_oracle token_oracle;
    struct fleet_clients clients;
    struct fleet_accounts accounts;
    struct fault_timetable faults;
    struct fleet_hosts hosts;
    struct fleet_managers managers;
    int64_t ask_ns, leave_ns;     /* when the next client asks, or leaves */
    struct fleet_client *stalled; /* a client that does not read, and is dropped at stall_ns */
    int64_t stall_ns;
    int64_t rest_ns; /* since when no work is left, or MACHINE_NEVER */
    char *result;    /* [RESULT_BYTES] of a step, until the unit has processed it */
    char *envelope;  /* [RESULT_BYTES] for a forwarded record */
};

/* Records a breach. Only the first text is kept. */
static inline void world_breach(struct world *world, const char *text) {
    struct fleet_world_report *report = world->report;
    if (!report->breach[0])
        format_text(report->breach, sizeof report->breach, "%s (after %lld ms)", text,
                    (long long)(world->now_ns / FLEET_MS));
}

/* Adds an event without a request to the log. */
static inline void world_log(struct world *world, const char *what, uint32_t unit, uint32_t rank,
                             uint64_t a, uint64_t b) {
    fleet_log_add(world->log, world->now_ns, what, unit, rank, a, b);
}

/* The arrival time of a message sent now. It is not before that of the previous message. */
static inline int64_t world_arrival_ns(struct world *world, int64_t *last_ns) {
    int64_t due_ns = world->now_ns + fleet_dice_time(&world->dice, FLEET_MS / 10, 3 * FLEET_MS);
    if (due_ns < *last_ns) due_ns = *last_ns;
    return *last_ns = due_ns;
}

/* ---- fleet_units.c ---- */

/* Handles everything that is due at the unit. fleet_units_wake_ns returns the time of the next
 * event. */
void fleet_units_run(struct world *world, uint32_t index);
int64_t fleet_units_wake_ns(const struct world *world, uint32_t index);
uint32_t fleet_units_held(const struct world *world, const struct fleet_unit_host *unit);

/* True if no step is running and no message is in transit to the unit or to the KV agents of its
 * ranks. */
bool fleet_units_quiet(const struct world *world, uint32_t unit);

void fleet_units_kill(struct world *world, uint32_t index);

/* Make the unit continue without a rank that has died, or with the new process of that rank. The
 * current step is interrupted. */
void fleet_units_bury(struct world *world, uint32_t index, uint32_t rank);
void fleet_units_take_back(struct world *world, uint32_t index, uint32_t rank);

/* Breaks the unit's connection to a gateway. If `reported`, the host of the gateway is notified. */
void fleet_units_cut(struct world *world, uint32_t index, uint32_t gateway, bool reported);

/* Cuts the unit off from a gateway until until_ns. The host of the gateway detects that only after
 * its silence timeout. */
void fleet_units_part(struct world *world, uint32_t index, uint32_t gateway, int64_t until_ns);

/* True if the unit is connected to all gateways. */
bool fleet_units_is_connected(const struct world *world, uint32_t index);

/* An operator asks the unit directly to drain. */
void fleet_units_ask_drain(struct world *world, uint32_t unit);

/* Receives a record from a KV agent of the unit's ranks or from the KV storage. */
void fleet_units_receive(void *context, uint32_t unit, const struct record *record);
struct fleet_engine *fleet_units_engine(void *context, uint32_t unit, uint32_t rank);

/* ---- fleet_gateway.c ---- */

void fleet_gateway_start(struct world *world, uint32_t index);
void fleet_gateway_kill(struct world *world, uint32_t index);

/* Handles everything that is due at any gateway or client. fleet_gateway_wake_ns returns the time
 * of the next event. */
void fleet_gateway_run(struct world *world);
int64_t fleet_gateway_wake_ns(const struct world *world);

/* An operator asks a gateway connected to the unit that the unit drain, serve again, or change its
 * role. */
void fleet_gateway_ask_drain(struct world *world, uint32_t gateway, uint32_t connection, bool back);
void fleet_gateway_ask_role(struct world *world, uint32_t gateway, uint32_t connection,
                            uint32_t role);

void fleet_gateway_audit(struct world *world);

/* Checks that nothing is left at the end. */
void fleet_gateway_verify(struct world *world);

/* ---- fleet_faults.c ---- */

void fleet_faults_open(struct world *world);
void fleet_faults_heal(struct world *world);

/* ---- fleet_inside.c ---- */

/* Writes the tenants of the plan's rows: salts_out[row_count]. */
void fleet_inside_salts(const struct unit *unit, const struct step_plan *plan, uint64_t *salts_out);

/* True if the rank gets no more requests because its process has died and was not replaced. */
bool fleet_inside_abandoned(const struct fleet_unit_host *host, uint32_t rank);

/* Checks that every page that is read or written has one owner, which has registered the access.
 * Returns NULL, or a text that describes the violation. */
const char *fleet_inside_audit(const struct world *world, uint32_t index, uint32_t rank);
