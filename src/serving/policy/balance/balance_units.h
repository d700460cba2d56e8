/* SPDX-License-Identifier: Apache-2.0
 * Chooses the unit of a fleet for a request. Binding is late: a request waits at the gateway until
 * a unit has few waiting requests. Load data is therefore fresh, a unit that joins gets work at
 * once, and the loss of a unit affects few requests. Units may differ in size, so the choice is by
 * the share of requests and of KV pages in use. Of the units that take requests, the one with the
 * smallest share is chosen.
 *
 * A unit that probably has part of the prompt in its prefix cache is chosen even if its share is
 * somewhat larger. The allowance is proportional to the part that it saves, and bounded, so that a
 * prefix common to all requests does not overload one unit. The smallest score wins:
 *
 *   share - (BALANCE_UNITS_LEAN * smallest share + BALANCE_UNITS_LEAN_REQUESTS * ranks / requests
 *            that the unit takes) * tokens saved / prompt
 *
 * Prefill units do not keep their requests, so the criterion there is time. Their shares fall when
 * a step ends and its prompts leave, but a new request then has to wait for the whole next step.
 * The unit with the shortest wait is chosen:
 *
 *   time until the running step ends + BALANCE_UNITS_BEFORE * time of its prompts
 *   - time saved by its cache
 *
 * Pure. Doubles with fixed operations in a fixed order; ties go to the smaller share, then to the
 * lowest unit.
 */
#pragma once

#include "serving/policy/balance/balance.h"

/* Requests that may wait at a unit, per rank: enough for its next steps, and for some choice in its
 * own order of turns. */
#define BALANCE_UNITS_WAITING 8

#define BALANCE_UNITS_LEAN 0.25
#define BALANCE_UNITS_LEAN_REQUESTS 4 /* additional requests per rank */

/* The fraction of a unit's prompts, by time, that is computed before a new one. It is below 1
 * because ranks compute chunks in parallel. */
#define BALANCE_UNITS_BEFORE 0.5

/* The value of a token in shared storage, relative to a token in the unit's own cache. */
#define BALANCE_UNITS_LOADED 0.75

struct balance_unit {
    bool accepts;                /* serves and is not draining */
    bool full;                   /* just refused a request because it was full */
    uint32_t role;               /* enum unit_role */
    uint32_t numerics;           /* < 64: units with the same number compute identical results */
    bool movable;                /* its role can be changed */
    uint32_t rank_count;         /* >= 1 */
    uint32_t context_tokens_max; /* prompt and answer of one request */
    uint32_t rank_pages;         /* pages of its largest rank: a request stays in one rank */
    uint32_t requests, requests_max; /* requests bound to it; requests_max >= 1 */
    uint32_t waiting;                /* requests bound to it that do not run yet */
    uint64_t pages_total;            /* >= 1 */
    uint64_t pages_taken; /* pages held by running requests or promised to waiting ones */
    double step_left_ns;  /* expected time until its running step ends; 0: none runs */
    double prompts_ns;    /* expected time of its prompts */
    double token_ns;      /* expected time of a rank per prompt token */
};

#define BALANCE_ROLE(role) (1u << (role))

struct balance_units_need {
    uint64_t tokens;      /* prompt and longest answer */
    uint64_t page_count;  /* pages for `tokens` */
    uint64_t start_pages; /* pages for the tokens known now */
    /* the unit that already computes the same prompt, chosen if it accepts requests; else
     * BALANCE_NO_RANK */
    uint32_t partner;
    /* the unit that failed this request, chosen only if no other unit is large enough; or
     * BALANCE_NO_RANK */
    uint32_t avoided_unit;
    uint64_t numerics; /* one bit per allowed numerics number; 0: any */
    /* BALANCE_ROLE of the allowed roles; if no such unit serves, any role is allowed */
    uint32_t roles;
    uint32_t prompt_tokens; /* >= 1 if hit_tokens is given */
    /* [unit_count] prompt tokens that the unit need not compute; NULL: unknown */
    const uint32_t *hit_tokens;
};

enum units_reason {
    UNITS_BOUND,         /* the unit with the smallest share in use */
    UNITS_BOUND_PREFIX,  /* a unit with a larger share that has part of the prompt */
    UNITS_BOUND_PARTNER, /* the unit that already computes the same prompt */
    /* the unit with the shortest wait, given the part of the prompt that it saves */
    UNITS_BOUND_SOONEST,
    UNITS_WAITS_ROOM, /* every unit that is large enough has enough waiting requests */
    UNITS_WAITS_SIZE, /* no serving unit is large enough */
    UNITS_WAITS_UNIT, /* no unit serves */
    UNITS_REASON_COUNT
};

/* The reason as short lower-case text, for logs and traces. */
const char *balance_units_reason_name(enum units_reason reason);

struct units_choice {
    uint32_t unit; /* BALANCE_NO_RANK: the request waits */
    uint32_t reason;
};

struct units_choice balance_units(const struct balance_units_need *need,
                                  const struct balance_unit *units, uint32_t unit_count);
