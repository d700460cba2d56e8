/* SPDX-License-Identifier: Apache-2.0
 * What a fleet's manager knows of its units, a machine around serving/fleet/fleet_manager. It receives
 * the launcher's jobs (FLEET_JOBS), each gateway's report (FLEET_GATEWAY), operators' orders
 * (FLEET_ORDER; FULL until the next step) and failed launches (FLEET_UNIT, REFUSED). At each step it reports the units and the
 * load to the manager and sends its actions (FLEET_ACTION): starts and stops for the launcher, and for
 * each gateway that knows a unit its drain, its return or its role. FLEET_UNIT with GONE reports a
 * unit's end, for the log.
 *
 * The host writes the book after each step, before it performs an action, so that the next keeper finds
 * every unit that was started. A report counts until the next one of the same launcher or gateway.
 */
#ifndef SERVING_FLEET_FLEET_KEEPER_H
#define SERVING_FLEET_FLEET_KEEPER_H

#include "base/limits.h"
#include "contract/record_unit.h"
#include "serving/fleet/fleet_manager.h"

/* ---- the book: the state that a later keeper needs ---- */

struct fleet_book_unit {
    uint32_t number;
    uint32_t role; /* enum unit_role */
    bool held;
};

struct fleet_book {
    uint32_t last_number;
    uint32_t pinned[SCALE_SIDES]; /* or SCALE_FREE */
    uint32_t count;
    struct fleet_book_unit units[MANAGED_UNITS_MAX];
};

/* ---- the keeper ---- */

struct kept_report {     /* one gateway's, of a unit */
    uint32_t connection; /* 0: the gateway does not know the unit */
    uint32_t role, sight, requests;
};

struct kept_unit {
    uint32_t number;
    uint32_t role;      /* enum unit_role, as last reported or ordered; UNIT_BOTH never */
    uint32_t launched;  /* enum fleet_sight, by its launcher */
    bool held;          /* an operator has drained it */
    bool alone;         /* no other unit could continue its requests, when a gateway last saw it */
    bool is_there;      /* its launcher has it */
    int64_t ordered_ns; /* when it was launched, or first seen */
    struct kept_report reports[LIMIT_FLEET_GATEWAYS];
    char numerics[32];
    char job[FLEET_JOB_NAME_BYTES];
};

struct fleet_keeper_options {
    struct fleet_manager_options manager; /* its first_number is the book's */
    uint32_t gateway_count;
    int64_t shows_ns; /* a launched unit is among the launcher's jobs by then, while it lives */
    int64_t wall_ns;  /* the wall clock's time less the steady clock's */
};

struct fleet_keeper;

/* Arena bytes that suffice for fleet_keeper_create. */
size_t fleet_keeper_bytes(void);

/* `book`: of the keeper before; the units and orders in it are taken over. */
enum status fleet_keeper_create(struct arena *arena, const struct fleet_keeper_options *options,
                                const struct fleet_book *book, int64_t now_ns,
                                struct fleet_keeper **keeper_out) MUST_USE;

/* Its time is the steady clock's. */
struct machine fleet_keeper_machine(struct fleet_keeper *keeper);

/* The wall clock may be set: its time less the steady clock's. */
void fleet_keeper_set_wall(struct fleet_keeper *keeper, int64_t wall_ns);

/* ---- views ---- */

struct fleet_manager *fleet_keeper_manager(struct fleet_keeper *keeper);
void fleet_keeper_book(const struct fleet_keeper *keeper, struct fleet_book *book_out);

/* units[*count_out], in no order. */
const struct kept_unit *fleet_keeper_units(const struct fleet_keeper *keeper, uint32_t *count_out);

/* NULL: unknown. */
const struct kept_unit *fleet_keeper_find(const struct fleet_keeper *keeper, uint32_t number);

/* Requests at the unit, of all gateways. */
uint32_t fleet_keeper_requests(const struct fleet_keeper *keeper, const struct kept_unit *unit);

/* True if all gateways have answered. */
bool fleet_keeper_has_load(const struct fleet_keeper *keeper);

#endif
