/* SPDX-License-Identifier: Apache-2.0
 * Decides which unit of a fleet changes between prefill and decode as the load changes. Two
 * pressures are measured on the serving units of each kind:
 *
 *   prefill   prompts that wait, at the gateway and at the units, over the number that may wait
 *             there
 *   decode    KV pages and requests in use, the larger share of the two, mean over the units
 *
 * A kind under pressure gets a unit of the other kind if that has one to spare, that is, if it
 * would still be far from pressure without it. If decode is under pressure, prompts wait for it
 * (pages are reserved first), so decode has priority. A pressure has to last, and after a change
 * the fleet rests, so that roles do not oscillate. The last unit of a kind stays. Units that do
 * both are not changed.
 *
 * The caller keeps the state; otherwise pure. Ties go to the lowest unit.
 */
#pragma once

#include "serving/policy/balance/balance_units.h"

#define CHOOSE_ROLES_PREFILL_HIGH 0.5 /* under pressure */
#define CHOOSE_ROLES_PREFILL_LOW 0.25 /* can spare a unit, if its pressure stays below this */
#define CHOOSE_ROLES_DECODE_HIGH 0.85
#define CHOOSE_ROLES_DECODE_LOW 0.6

struct choose_roles_rule {
    int64_t hold_ns; /* how long a pressure must last before a unit changes */
    int64_t rest_ns; /* from one change to the next */
};

enum roles_reason {
    ROLES_CALM,    /* no kind is under pressure */
    ROLES_LOOKS,   /* a kind is under pressure, but not for long enough */
    ROLES_RESTS,   /* the last change was too recent */
    ROLES_NO_UNIT, /* the other kind has no unit to spare */
    ROLES_MOVES,   /* a unit changes */
    ROLES_REASON_COUNT
};

/* The reason as short lower-case text, for /debug/fleet. */
const char *choose_roles_reason_name(enum roles_reason reason);

struct choose_roles { /* zeros at first */
    uint32_t pressed; /* enum unit_role: the kind under pressure; UNIT_BOTH: neither */
    int64_t since_ns;
    int64_t moved_ns;
    bool has_moved;
    enum roles_reason reason; /* reason of the last choice */
};

struct roles_choice {
    uint32_t unit; /* BALANCE_NO_RANK: no unit changes */
    uint32_t role; /* enum unit_role: its new role */
};

/* `queued`: requests that wait at the gateway. */
struct roles_choice choose_roles(struct choose_roles *state, const struct choose_roles_rule *rule,
                                 const struct balance_unit *units, uint32_t unit_count,
                                 uint32_t queued, int64_t now_ns);
