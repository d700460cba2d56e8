/* SPDX-License-Identifier: Apache-2.0
 * The manager of a fleet, a machine: it is told what gateways count (FLEET_LOAD), what is seen of each
 * unit (FLEET_UNIT) and what an operator wants (FLEET_ORDER), and says what is to be done with units
 * (FLEET_ACTION). How many there should be is serving/policy/scale_fleet, from serving/policy/
 * forecast_load and node_calendar; this file says which unit is started, called back, converted,
 * drained and ended for it, in that order of preference:
 *
 *   more   a unit that drains is called back, one of the other role that can be spared changes its
 *          role, a new one starts
 *   fewer  one that does not serve yet is given up, one that serves drains
 *
 * A unit ends when it has drained and nothing is left, or when serving/policy/end_drain gives its
 * requests away. One that served, and of which no gateway tells for as long as a start takes, is lost,
 * whatever its launcher says: it is ended, and another one starts. Actions are told again until they show, so whoever carries them out may forget. A
 * manager that begins anew takes over each unit that it is told of. While nothing is told of the load
 * it leaves all as it is. Its clock is the wall's, since days have hours; it may stand still, and step.
 */
#ifndef SERVING_FLEET_FLEET_MANAGER_H
#define SERVING_FLEET_FLEET_MANAGER_H

#include "base/arena.h"
#include "contract/machine.h"
#include "contract/record_fleet.h"
#include "serving/policy/forecast_load.h"
#include "serving/policy/node_calendar.h"
#include "serving/policy/scale_fleet.h"

struct fleet_manager;

struct fleet_manager_options {
    struct scale_rule rule;
    struct node_calendar calendar; /* its period is the day's */
    uint32_t nodes;                /* that the fleet may have when none is promised */
    int64_t ttft_limit_ns, tpot_limit_ns;
    double missed_share;     /* of the requests of a while, beyond a limit, that is too much */
    int64_t decide_ns;       /* between two choices */
    int64_t drain_ns_max;    /* a unit's requests are given away after so long */
    int64_t start_ns_max;    /* a unit that does not serve by then has failed */
    bool converts;           /* units may change their role, where both have as many nodes */
    uint32_t starts_at_once; /* units that start at the same time, at most */
    uint32_t first_number; /* of the first unit that it starts; numbers of units told are skipped */
};

enum managed_state {
    MANAGED_NONE,
    MANAGED_ORDERED, /* it was asked for, and does not serve yet */
    MANAGED_SERVING,
    MANAGED_DRAINING,
    MANAGED_ENDING, /* it was told to end */
    MANAGED_STATE_COUNT
};

struct managed_unit {
    uint32_t number;
    uint32_t role;      /* enum unit_role */
    uint32_t state;     /* enum managed_state */
    uint32_t sight;     /* enum fleet_sight: of the last FLEET_UNIT */
    uint32_t requests;  /* of the last FLEET_UNIT */
    uint32_t seen_role; /* enum unit_role, of the last FLEET_UNIT */
    bool held;          /* an operator drained it */
    bool alone;         /* what it has could go nowhere, as of the last FLEET_UNIT */
    bool leaves;        /* it drains without having been told to: it is not called back */
    uint32_t act;       /* enum fleet_act: the last that was said of it */
    uint32_t reason;    /* enum scale_reason, of it */
    int64_t since_ns;   /* it is in this state */
    int64_t told_ns;    /* when that was last said */
    int64_t heard_ns;   /* a gateway told of it last, or none could be asked */
};

#define MANAGED_UNITS_MAX 256

/* Arena bytes that suffice for fleet_manager_create. */
size_t fleet_manager_bytes(void);

enum status fleet_manager_create(struct arena *arena, const struct fleet_manager_options *options,
                                 struct fleet_manager **manager_out) MUST_USE;

struct machine fleet_manager_machine(struct fleet_manager *manager);

/* What was learnt of the load: for whoever keeps it, and to begin with. */
struct forecast_load *fleet_manager_forecast(struct fleet_manager *manager);

/* ---- views ---- */

/* Units in the order of their numbers: units_out[MANAGED_UNITS_MAX]; how many there are. */
uint32_t fleet_manager_units(const struct fleet_manager *manager, struct managed_unit *units_out);

struct fleet_outlook {
    bool has_load; /* else the rest is zeros */
    uint32_t wanted[SCALE_SIDES];
    uint32_t units[SCALE_SIDES]; /* that count for it: ordered and serving */
    enum scale_reason reason[SCALE_SIDES];
    struct scale_demand demand[SCALE_SIDES];
    uint32_t nodes_max, nodes;    /* that it may have; that it has */
    uint32_t pinned[SCALE_SIDES]; /* or SCALE_FREE */
    uint64_t starts_total, failed_total, lost_total, reversals_total;
};
struct fleet_outlook fleet_manager_outlook(const struct fleet_manager *manager);

struct fleet_next {
    bool is_known; /* else nothing changes within a period, as far as is expected */
    int64_t at_ns;
    enum scale_side side;
    int32_t change; /* units more, or fewer */
    enum scale_reason reason;
};
/* What is expected to be done next, if the load is as expected. */
struct fleet_next fleet_manager_next(const struct fleet_manager *manager, int64_t now_ns);

/* "starting", "serving", "draining", "ending". */
const char *managed_state_name(uint32_t state);

#endif
