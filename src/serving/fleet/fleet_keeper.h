/* SPDX-License-Identifier: Apache-2.0
 * The machine around serving/fleet/fleet_manager. It keeps the state of each unit as seen by the
 * launcher and the gateways. It receives the launcher's jobs (FLEET_JOBS), the report of each
 * gateway (FLEET_GATEWAY), operators' commands (FLEET_COMMAND; FULL until the next step) and failed
 * launches (FLEET_UNIT, REFUSED). Each step reports the units and the load to the manager, and
 * forwards the manager's actions (FLEET_ACTION): starts and stops to the launcher, and drain,
 * return and role to each gateway that has the unit. FLEET_UNIT with GONE reports the end of a
 * unit, for the log.
 *
 * The host stores the book after each step and before it performs any action, so that the next
 * keeper finds every unit that was started. A report is valid until the next one from the same
 * launcher or gateway.
 */
#pragma once

#include "base/limits.h"
#include "serving/fleet/fleet_manager.h"

/* ---- the book: the state for a later keeper ---- */

struct fleet_book_unit {
    uint32_t number;
    uint32_t role; /* enum unit_role */
    bool drained_by_operator;
};

struct fleet_book {
    uint32_t last_number;
    uint32_t pinned[SCALE_SIDES]; /* number of units, or SCALE_FREE */
    uint32_t count;
    struct fleet_book_unit units[MANAGED_UNITS_MAX];
};

/* ---- the keeper ---- */

struct kept_report {     /* the report of one gateway about a unit */
    uint32_t connection; /* id of the gateway's connection to the unit; 0: none */
    uint32_t role, observed_state, requests;
};

struct kept_unit {
    uint32_t number;
    uint32_t role;            /* enum unit_role, as last reported or ordered; never UNIT_BOTH */
    uint32_t launched;        /* enum fleet_unit_state, as reported by the launcher */
    bool drained_by_operator; /* an operator has drained it */
    bool stranded;            /* no other unit could continue its requests, as last reported */
    bool is_there;            /* the launcher lists it */
    int64_t ordered_ns;       /* time of its launch, or of its first report */
    struct kept_report reports[LIMIT_FLEET_GATEWAYS];
    char numerics[32];
    char job[FLEET_JOB_NAME_BYTES];
};

struct fleet_keeper_options {
    struct fleet_manager_options manager; /* first_number is ignored; the book has it */
    uint32_t gateway_count;
    /* time within which a launched unit must appear among the launcher's jobs */
    int64_t list_delay_max_ns;
    int64_t wall_ns; /* wall clock minus steady clock */
};

struct fleet_keeper;

/* Arena bytes that fleet_keeper_create needs. */
size_t fleet_keeper_bytes(void);

/* `book` is the state of the previous keeper. Its units and its operators' commands are adopted. */
enum status fleet_keeper_create(struct arena *arena, const struct fleet_keeper_options *options,
                                const struct fleet_book *book, int64_t now_ns,
                                struct fleet_keeper **keeper_out) MUST_USE;

/* The machine's time is the steady clock. */
struct machine fleet_keeper_machine(struct fleet_keeper *keeper);

/* Sets the difference of wall clock and steady clock, after the wall clock was set. */
void fleet_keeper_set_wall(struct fleet_keeper *keeper, int64_t wall_ns);

/* ---- views ---- */

struct fleet_manager *fleet_keeper_manager(struct fleet_keeper *keeper);
void fleet_keeper_book(const struct fleet_keeper *keeper, struct fleet_book *book_out);

/* units[*count_out], unordered. */
const struct kept_unit *fleet_keeper_units(const struct fleet_keeper *keeper, uint32_t *count_out);

/* The unit of that number; NULL if it is unknown. */
const struct kept_unit *fleet_keeper_find(const struct fleet_keeper *keeper, uint32_t number);

/* The requests at the unit, summed over all gateways. */
uint32_t fleet_keeper_requests(const struct fleet_keeper *keeper, const struct kept_unit *unit);

/* True if all gateways have reported. */
bool fleet_keeper_has_load(const struct fleet_keeper *keeper);
