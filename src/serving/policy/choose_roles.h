/* SPDX-License-Identifier: Apache-2.0
 * Decides which unit of a fleet changes its role between prefill and decode when the load changes.
 * The pressure on each role is measured on its serving units:
 *
 *   prefill   prompts that wait, at the gateway and at the units, over the number that may wait
 *             there
 *   decode    KV pages and requests in use, the larger share of the two, mean over the units
 *
 * A role under pressure gets a unit of the other role if that role can spare one, that is, if it
 * would still be far from pressure without it. Decode has priority: its pages are reserved first,
 * so prompts wait if decode is under pressure. A pressure must last for some time, and after each
 * change the fleet rests, so that roles do not oscillate. The last unit of a role stays. Units with
 * both roles are not changed.
 *
 * The caller keeps the state; otherwise pure. Ties go to the lowest unit.
 */
#pragma once

#include "serving/policy/balance/balance_units.h"

#define CHOOSE_ROLES_PREFILL_HIGH 0.5 /* under pressure */
#define CHOOSE_ROLES_PREFILL_LOW 0.25 /* can spare a unit if its pressure then stays below this */
#define CHOOSE_ROLES_DECODE_HIGH 0.85
#define CHOOSE_ROLES_DECODE_LOW 0.6

struct choose_roles_rule {
    int64_t hold_ns; /* how long a pressure must last before a unit changes */
    int64_t rest_ns; /* minimum time between two changes */
};

enum roles_reason {
    ROLES_CALM,    /* no role is under pressure */
    ROLES_LOOKS,   /* a role is under pressure, but not for long enough yet */
    ROLES_RESTS,   /* the last change was too recent */
    ROLES_NO_UNIT, /* the other role has no unit to spare */
    ROLES_MOVES,   /* a unit changes */
    ROLES_REASON_COUNT
};

/* The reason as short lower-case text, for /debug/fleet. */
const char *choose_roles_reason_name(enum roles_reason reason);

struct choose_roles { /* zeros at first */
    uint32_t pressed; /* enum unit_role: the role under pressure; UNIT_BOTH: neither */
    int64_t since_ns;
    int64_t moved_ns;
    bool has_moved;
    enum roles_reason reason; /* reason of the last choice */
};

struct roles_choice {
    uint32_t unit; /* BALANCE_NO_RANK: no unit changes */
    uint32_t role; /* enum unit_role: its new role */
};

/* Chooses at now_ns. `queued` is the number of requests that wait at the gateway. */
struct roles_choice choose_roles(struct choose_roles *state, const struct choose_roles_rule *rule,
                                 const struct balance_unit *units, uint32_t unit_count,
                                 uint32_t queued, int64_t now_ns);
