/* SPDX-License-Identifier: Apache-2.0
 * The inside of a simulated fleet: its units, its gateway, and what passes between them. The files
 * around it: fleet_world (a life, and what must hold at its end), fleet_units (the units' host),
 * fleet_gateway (the gateway's), fleet_ledger, fleet_faults, fleet_hosts (in some lives: what units stand
 * on), fleet_managers (in some: who starts and ends units for their load), fleet_inside (what can be seen only within a unit).
 */
#ifndef SIMULATE_FLEET_STATE_H
#define SIMULATE_FLEET_STATE_H

#include "base/format.h"
#include "serving/unit/rank_units.h"
#include "simulate/fleet_accounts.h"
#include "simulate/fleet_carriers.h"
#include "simulate/fleet_clients.h"
#include "simulate/fleet_hosts.h"
#include "simulate/fleet_ledger.h"
#include "simulate/fleet_managers.h"
#include "simulate/fleet_post.h"
#include "simulate/fleet_shares.h"
#include "simulate/fleet_storage.h"
#include "simulate/fleet_tongue.h"
#include "simulate/fleet_world.h"

#define REST_NS (300 * FLEET_SECOND)      /* nothing to do behind it */
#define SETTLED_NS (5 * FLEET_SECOND / 2) /* of rest, in which everything is told */
#define SIGN_NS (FLEET_SECOND / 2)

enum { OPEN_MAX = 128, SAID_BYTES = 1024 };

#define RESULT_BYTES ((size_t)256 << 10)

struct fleet_submitted {
    struct request_id id;
    uint32_t prompt_count;
    uint32_t connection; /* 0: its gateway is not told of it any more */
};

struct fleet_gateway_link { /* of a unit to a gateway */
    uint32_t connection;    /* 0: none; else no two are alike, whichever gateway's */
    int64_t in_ns, out_ns;  /* when the last message each way arrives */
    int64_t connect_ns;     /* when it connects next; MACHINE_NEVER */
};

/* For its load, a rank's row in the step in flight. */
struct fleet_wait {
    uint32_t asked; /* blocks of the load; 0: no row waits */
    uint32_t slot;  /* the row's */
    bool in_vain;   /* the engine waits no more */
};

struct fleet_unit_host {
    char *memory; /* of the machine and the engines of its present life */
    struct rank_units *units;
    struct machine machine;
    struct fleet_engine engines[FLEET_RANKS_MAX];
    struct fleet_post inbox;
    struct fleet_post wires; /* to the hosts of its ranks' pages */
    uint32_t role;           /* enum unit_role */
    uint32_t numerics;       /* of its present life */
    uint32_t life;
    uint32_t gateways_found, gateway_lives; /* when it started: alive, and ever begun */
    bool up, draining;
    bool goes; /* it drains, and will end when it has nothing left; else it may be called back */
    uint32_t number;                /* where there is a manager: as it knows the unit */
    bool ends;                      /* it was told to end, and nobody calls it back */
    bool dead[FLEET_RANKS_MAX];     /* ranks whose unit goes on without them */
    bool was_dead[FLEET_RANKS_MAX]; /* in this life of the unit */
    uint32_t dies; /* 1 + the rank that does not live to see the end of the next step */
    bool failing;  /* the step in flight fails, or */
    bool breaks;   /* it is broken off: those that live come again with their rows */
    bool tells[FLEET_RANKS_MAX]; /* the step in flight tells the carriers how far it is */
    struct fleet_wait waits[FLEET_RANKS_MAX];
    bool looks;            /* it looks whether the blocks that its rows wait for are whole */
    uint32_t step_rows;    /* of all ranks */
    int64_t wait_until_ns; /* its rows wait for loads until then */
    int64_t behind_ns;     /* it ends then, after it has waited in vain */
    int64_t step_began_ns;
    struct fleet_gateway_link links[FLEET_GATEWAYS_MAX];
    int64_t wire_ns[FLEET_RANKS_MAX];
    int64_t frozen_ns;                     /* until then it does nothing */
    int64_t up_ns;                         /* when it comes back; MACHINE_NEVER */
    int64_t sign_ns;                       /* when it repeats its load */
    struct fleet_submitted open[OPEN_MAX]; /* that it was given, and has not ended */
    uint32_t open_count;
    _Alignas(8) char hello[SAID_BYTES], load[SAID_BYTES]; /* the last ones */
};

#define FLEET_FAULTS 13 /* kinds of them (fleet_faults.c) */

struct fleet_fault { /* of one kind */
    struct fleet_dice dice;
    int64_t due_ns; /* the next one; MACHINE_NEVER: none */
};

struct fleet_gateway_host {
    char *memory;
    struct gateway *gateway; /* NULL: it is dead */
    struct machine machine;
    struct fleet_post inbox;
    struct fleet_shares shares;
    int64_t up_ns; /* when another one comes; MACHINE_NEVER */
};

struct world {
    struct fleet_world_options options;
    struct fleet_world_report *report;
    struct fleet_log *log;
    int64_t now_ns;
    int64_t healed_ns, asked_ns; /* no fault behind the one, no client behind the other */
    struct fleet_dice dice;
    uint32_t connections, turns;
    struct unit_options unit_options;
    size_t unit_bytes;
    uint32_t ranks, unit_count;
    struct fleet_dice renewals; /* of units, which then compute otherwise */
    struct fleet_unit_host units[FLEET_UNITS_MAX];
    struct fleet_carriers carriers;
    struct fleet_storage storage;
    struct fleet_ledger ledger;
    struct gateway_options *gateway_options;
    uint32_t gateway_count;
    struct fleet_gateway_host gateways[FLEET_GATEWAYS_MAX];
    uint32_t gateway_lives;   /* that have begun */
    struct fleet_dice crowds; /* whether a gateway's outbox is nearly full */
    struct fleet_dice drains; /* whether a unit that drains goes at once */
    struct fleet_tongue tongue;
    struct fleet_clients clients;
    struct fleet_accounts accounts;
    struct fleet_fault faults[FLEET_FAULTS];
    struct fleet_hosts hosts;
    struct fleet_managers managers;
    int64_t ask_ns, leave_ns;     /* the next ones */
    struct fleet_client *stalled; /* does not read, and is given up at stall_ns */
    int64_t stall_ns;
    int64_t rest_ns; /* since when nothing is left to do; MACHINE_NEVER */
    char *result;    /* [RESULT_BYTES] of a step, until the unit has taken it */
    char *envelope;  /* [RESULT_BYTES] what is carried */
};

/* Says what was found not to hold. The first such text is kept. */
static inline void world_breach(struct world *world, const char *text) {
    struct fleet_world_report *report = world->report;
    if (!report->breach[0])
        format_text(report->breach, sizeof report->breach, "%s (after %lld ms)", text,
                    (long long)(world->now_ns / FLEET_MS));
}

/* When a message that is sent now arrives: not before the last one. */
static inline int64_t world_arrival_ns(struct world *world, int64_t *last_ns) {
    int64_t due_ns = world->now_ns + fleet_dice_time(&world->dice, FLEET_MS / 10, 3 * FLEET_MS);
    if (due_ns < *last_ns) due_ns = *last_ns;
    return *last_ns = due_ns;
}

/* ---- fleet_units.c ---- */

/* Does all that is due at the unit. */
void fleet_units_run(struct world *world, uint32_t index);
int64_t fleet_units_wake_ns(const struct world *world, uint32_t index);
uint32_t fleet_units_held(const struct world *world, const struct fleet_unit_host *unit);

/* True if no step is in flight and nothing is on the way to it or its pages' hosts. */
bool fleet_units_quiet(const struct world *world, uint32_t unit);

void fleet_units_kill(struct world *world, uint32_t index);

/* The unit goes on without a rank that has died, or again with it, when another process has come in its
 * place. A step in flight is broken off. */
void fleet_units_bury(struct world *world, uint32_t index, uint32_t rank);
void fleet_units_take_back(struct world *world, uint32_t index, uint32_t rank);

/* Its connection to a gateway is gone, it is not. `told`: the gateway's host is told of it. */
void fleet_units_cut(struct world *world, uint32_t index, uint32_t gateway, bool told);

/* Likewise, and it cannot come back before that time: the gateway's host learns of it late, behind
 * the time after which it takes the unit for silent. */
void fleet_units_part(struct world *world, uint32_t index, uint32_t gateway, int64_t until_ns);

/* It is connected to all gateways. */
bool fleet_units_is_connected(const struct world *world, uint32_t index);

/* An operator's wish, at the unit itself: that it takes nothing new. */
void fleet_units_ask_drain(struct world *world, uint32_t unit);

/* A record from the host of its pages or of the KV storage. */
void fleet_units_hear(void *context, uint32_t unit, const struct record *record);
struct fleet_engine *fleet_units_engine(void *context, uint32_t unit, uint32_t rank);

/* ---- fleet_gateway.c ---- */

void fleet_gateway_start(struct world *world, uint32_t index);
void fleet_gateway_kill(struct world *world, uint32_t index);

/* All that is due at any of them, and at their clients. */
void fleet_gateway_run(struct world *world);
int64_t fleet_gateway_wake_ns(const struct world *world);

/* An operator's wishes, told to a gateway that the unit is connected to: that the unit takes nothing
 * new, or serves again, or takes another role. */
void fleet_gateway_ask_drain(struct world *world, uint32_t gateway, uint32_t connection, bool back);
void fleet_gateway_ask_role(struct world *world, uint32_t gateway, uint32_t connection,
                            uint32_t role);

void fleet_gateway_audit(struct world *world);

/* Nothing is left at the end. */
void fleet_gateway_judge(struct world *world);

/* ---- fleet_faults.c ---- */

void fleet_faults_open(struct world *world);
int64_t fleet_faults_wake_ns(const struct world *world);
void fleet_faults_strike(struct world *world);
void fleet_faults_heal(struct world *world);

/* ---- fleet_inside.c ---- */

/* The tenants of the plan's rows: salts_out[row_count]. */
void fleet_inside_salts(const struct unit *unit, const struct step_plan *plan, uint64_t *salts_out);

/* The rank takes no more requests: its process has died, and no other one has come in its place. */
bool fleet_inside_abandoned(const struct fleet_unit_host *host, uint32_t rank);

/* Every page that somebody may write to or read has one owner, who knows of it. NULL, or what is
 * wrong. */
const char *fleet_inside_audit(const struct world *world, uint32_t index, uint32_t rank);

#endif
