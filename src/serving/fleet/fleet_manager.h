/* SPDX-License-Identifier: Apache-2.0
 * The machine that manages the units of a fleet (autoscaling). It receives the counters of the
 * gateways (FLEET_LOAD), the observed state of each unit (FLEET_UNIT) and operators' commands
 * (FLEET_COMMAND), and sends actions on units (FLEET_ACTION). serving/policy/scale_fleet decides
 * the number of units, using serving/policy/forecast_load and node_calendar. This file chooses
 * which units to start, call back, convert, drain and end, in this order of preference:
 *
 *   more   call a draining unit back, convert a spare unit of the other role, start a new unit
 *   fewer  give up a unit that does not serve yet, drain a unit that serves
 *
 * A draining unit is ended when it has no requests left, or when serving/policy/end_drain moves its
 * requests. A unit that has served counts as lost if no gateway reports it for the time of a start,
 * even if its launcher still lists it. It is ended, and another one starts. Actions are repeated
 * until they have an effect, so an action may get lost. A restarted manager adopts each reported
 * unit, and changes nothing until the load is known. The clock is the wall clock, because the
 * forecast depends on the time of day. It may stop or step.
 */
#pragma once

#include "base/arena.h"
#include "contract/machine.h"
#include "contract/record_fleet.h"
#include "contract/record_unit.h"
#include "serving/policy/forecast_load.h"
#include "serving/policy/node_calendar.h"
#include "serving/policy/scale_fleet.h"

struct fleet_manager;

static inline uint32_t fleet_manager_side_of(uint32_t role) { /* enum unit_role */
    return role == UNIT_PREFILL ? SCALE_PREFILL : SCALE_DECODE;
}

static inline uint32_t fleet_manager_role_of(uint32_t side) { /* enum scale_side */
    return side == SCALE_PREFILL ? UNIT_PREFILL : UNIT_DECODE;
}

struct fleet_manager_options {
    struct scale_rule rule;
    struct node_calendar calendar; /* its period is a day */
    uint32_t nodes;                /* nodes of the fleet when none is promised to others */
    int64_t ttft_limit_ns, tpot_limit_ns;
    double missed_share;  /* largest accepted share of recent requests that miss a limit */
    int64_t decide_ns;    /* time between two decisions */
    int64_t drain_ns_max; /* time after which a draining unit's requests are moved */
    int64_t start_ns_max; /* time after which a unit that does not serve has failed */
    /* units may change their role if units of both roles need the same number of nodes */
    bool converts;
    uint32_t starts_at_once; /* limit of units that start at the same time */
    /* number of the first unit to start; numbers of reported units are skipped */
    uint32_t first_number;
};

enum managed_state {
    MANAGED_NONE,
    MANAGED_ORDERED, /* ordered, but does not serve yet */
    MANAGED_SERVING,
    MANAGED_DRAINING,
    MANAGED_STOPPING, /* ordered to end */
    MANAGED_STATE_COUNT
};

struct managed_unit {
    uint32_t number;
    uint32_t role;            /* enum unit_role */
    uint32_t state;           /* enum managed_state */
    uint32_t observed_state;  /* enum fleet_unit_state of the last FLEET_UNIT */
    uint32_t requests;        /* requests in the last FLEET_UNIT */
    uint32_t seen_role;       /* enum unit_role of the last FLEET_UNIT */
    bool drained_by_operator; /* an operator has drained it */
    bool stranded;       /* no other unit could continue its requests, as of the last FLEET_UNIT */
    bool leaves;         /* drains without an order, and is not called back */
    uint32_t act;        /* enum fleet_act: its last action */
    uint32_t reason;     /* enum scale_reason of that action */
    int64_t since_ns;    /* start of this state */
    int64_t reported_ns; /* time at which the action was last sent */
    /* time of the last report of a gateway, or the last time at which none could report */
    int64_t received_ns;
};

#define MANAGED_UNITS_MAX 256

/* Arena bytes that fleet_manager_create needs. */
size_t fleet_manager_bytes(void);

enum status fleet_manager_create(struct arena *arena, const struct fleet_manager_options *options,
                                 struct fleet_manager **manager_out) MUST_USE;

struct machine fleet_manager_machine(struct fleet_manager *manager);

/* The learnt forecast, for a caller that saves it or restores it at the start. */
struct forecast_load *fleet_manager_forecast(struct fleet_manager *manager);

/* ---- views ---- */

/* Writes the units in the order of their numbers to units_out[MANAGED_UNITS_MAX]; returns their
 * count. */
uint32_t fleet_manager_units(const struct fleet_manager *manager, struct managed_unit *units_out);

struct fleet_outlook {
    bool has_load; /* false: the rest is zero */
    uint32_t wanted[SCALE_SIDES];
    uint32_t units[SCALE_SIDES]; /* units that are ordered or serving */
    enum scale_reason reason[SCALE_SIDES];
    struct scale_demand demand[SCALE_SIDES];
    uint32_t nodes_max, nodes;    /* maximum, and nodes in use */
    uint32_t pinned[SCALE_SIDES]; /* number of units, or SCALE_FREE */
    uint64_t starts_total, failed_total, lost_total, reversals_total;
};
struct fleet_outlook fleet_manager_outlook(const struct fleet_manager *manager);

struct fleet_next {
    bool is_known; /* false: no change is expected within a period */
    int64_t at_ns;
    enum scale_side side;
    int32_t change; /* number of units added; negative: removed */
    enum scale_reason reason;
};
/* The next expected change if the load is as forecast. */
struct fleet_next fleet_manager_next(const struct fleet_manager *manager, int64_t now_ns);

/* "starting", "serving", "draining", "ending". */
const char *managed_units_state_name(uint32_t state);
