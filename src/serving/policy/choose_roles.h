/* SPDX-License-Identifier: Apache-2.0
 * Which unit of a fleet changes between prefill and decode, as the load does. Two pressures are
 * measured on the units of either kind that serve:
 *
 *   prefill   prompts that wait, at the gateway and at the units, over what may wait at them
 *   decode    KV pages and requests in use, the larger share of the two, mean over the units
 *
 * A kind that is pressed gets a unit of the other one if that can spare it: with one unit fewer it
 * would still be far from pressed itself. Where decode is pressed, prompts wait for it (pages are
 * reserved first), so it comes first. A pressure has to last, and after a change the fleet rests,
 * so that nothing swings. The last unit of a kind stays; units that do both are left alone.
 *
 * The state is the caller's; else pure. Ties go to the lowest unit.
 */
#ifndef SERVING_POLICY_CHOOSE_ROLES_H
#define SERVING_POLICY_CHOOSE_ROLES_H

#include "serving/policy/balance_units.h"

#define CHOOSE_ROLES_PREFILL_HIGH 0.5 /* pressed */
#define CHOOSE_ROLES_PREFILL_LOW 0.25 /* can spare a unit, if not above it then */
#define CHOOSE_ROLES_DECODE_HIGH 0.85
#define CHOOSE_ROLES_DECODE_LOW 0.6

struct choose_roles_rule {
    int64_t hold_ns; /* a pressure lasts for so long before anybody moves */
    int64_t rest_ns; /* from one change to the next */
};

enum roles_reason {
    ROLES_CALM,    /* no kind is pressed */
    ROLES_LOOKS,   /* one is, but not for long */
    ROLES_RESTS,   /* the last change was not long ago */
    ROLES_NO_UNIT, /* the other kind cannot spare one */
    ROLES_MOVES,   /* a unit changes */
    ROLES_REASON_COUNT
};

/* Short lower-case text, for /debug/fleet. */
const char *roles_reason_name(enum roles_reason reason);

struct choose_roles { /* zeros at first */
    uint32_t pressed; /* enum unit_role: the kind that is; UNIT_BOTH: neither */
    int64_t since_ns;
    int64_t moved_ns;
    bool has_moved;
    enum roles_reason reason; /* of the last choice */
};

struct roles_choice {
    uint32_t unit; /* BALANCE_NO_RANK: nobody moves */
    uint32_t role; /* enum unit_role, for it */
};

/* `queued`: requests that wait at the gateway. */
struct roles_choice choose_roles(struct choose_roles *state, const struct choose_roles_rule *rule,
                                 const struct balance_unit *units, uint32_t unit_count,
                                 uint32_t queued, int64_t now_ns);

#endif
