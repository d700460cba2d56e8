/* SPDX-License-Identifier: Apache-2.0
 * Chooses the unit of a fleet for a request. Binding is late: a request waits at the gateway until
 * a unit has little waiting. So the data about units is fresh, a unit that joins finds work, and
 * one that is lost loses few requests. Of the units that take requests, the one with the smallest
 * share of its requests and of its KV pages in use is chosen, because units may differ in size.
 *
 * A unit that probably has part of the prompt may have a larger share than others and still be
 * chosen. The allowance is proportional to the part that it saves, and bounded, so a prefix that
 * all requests have makes no unit hot:
 *
 *   share - (BALANCE_UNITS_LEAN * smallest share + BALANCE_UNITS_LEAN_REQUESTS * ranks / requests
 *            that the unit takes) * tokens saved / prompt
 *
 * Units that only compute prompts do not keep them, so time is the criterion there. Their shares
 * fall when a step ends and its prompts leave, which is when a new request has to wait for all of
 * the next step. The unit with the shortest wait is chosen:
 *
 *   until the running step ends + BALANCE_UNITS_BEFORE * time of the prompts that are there
 *   - time saved of its own
 *
 * Pure. Doubles with fixed operations in a fixed order; ties go to the smaller share, then to the
 * lowest unit.
 */
#ifndef SERVING_POLICY_BALANCE_BALANCE_UNITS_H
#define SERVING_POLICY_BALANCE_BALANCE_UNITS_H

#include "serving/policy/balance/balance.h"

/* Requests that may wait at a unit, for each of its ranks: enough for its next steps, and for its
 * own order of turns to have a choice. */
#define BALANCE_UNITS_WAITING 8

#define BALANCE_UNITS_LEAN 0.25
#define BALANCE_UNITS_LEAN_REQUESTS 4 /* and so many requests per rank */

/* The fraction of the prompts at a unit, by time, that is computed before one that joins them. The
 * ranks compute chunks in parallel, so it is not all. */
#define BALANCE_UNITS_BEFORE 0.5

/* The value of a token in a storage that units share, relative to one in the unit's own cache. */
#define BALANCE_UNITS_LOADED 0.75

struct balance_unit {
    bool takes;                      /* serves, and is not draining */
    bool full;                       /* has just refused a request for lack of room */
    uint32_t role;                   /* enum unit_role */
    uint32_t numerics;               /* < 64: units with the same number compute alike */
    bool movable;                    /* its role can be changed */
    uint32_t rank_count;             /* >= 1 */
    uint32_t context_tokens_max;     /* prompt and answer of one request */
    uint32_t rank_pages;             /* of its largest rank: a request stays in one rank */
    uint32_t requests, requests_max; /* bound to it; requests_max >= 1 */
    uint32_t waiting;                /* of them, not running yet */
    uint64_t pages_total;            /* >= 1 */
    uint64_t pages_taken;            /* held by running requests, promised to waiting ones */
    double step_left_ns;             /* expected time until its running step ends; 0: none runs */
    double prompts_ns;               /* expected time of the prompts that are there */
    double token_ns;                 /* expected time of a rank for a token of a prompt */
};

#define BALANCE_ROLE(role) (1u << (role))

struct balance_units_need {
    uint64_t tokens;            /* prompt and longest answer */
    uint64_t page_count;        /* for them */
    uint64_t start_pages;       /* for the tokens known now */
    uint32_t partner;           /* a unit that has the same prompt already, chosen if it takes
                                 * requests; else BALANCE_NO_RANK */
    uint32_t avoided_unit;      /* a unit that failed the request, chosen only if no other one is
                                 * large enough; or BALANCE_NO_RANK */
    uint64_t numerics;          /* a bit each: only units with these; 0: any */
    uint32_t roles;             /* BALANCE_ROLE of the wanted ones; if no such unit serves, any
                                 * role */
    uint32_t prompt_tokens;     /* >= 1 if hit_tokens is given */
    const uint32_t *hit_tokens; /* [unit_count] tokens of the prompt that need not be computed
                                 * there; NULL: unknown */
};

enum units_reason {
    UNITS_BOUND,         /* the smallest share in use */
    UNITS_BOUND_PREFIX,  /* not the smallest, but it has part of the prompt */
    UNITS_BOUND_PARTNER, /* the unit that computes its prompt anyway */
    UNITS_BOUND_SOONEST, /* the shortest wait for its prompt, including the saved part */
    UNITS_WAITS_ROOM,    /* every unit that is large enough has enough waiting */
    UNITS_WAITS_SIZE,    /* no serving unit is large enough */
    UNITS_WAITS_UNIT,    /* no unit serves */
    UNITS_REASON_COUNT
};

/* Short lower-case text, for logs and traces. */
const char *balance_units_reason_name(enum units_reason reason);

struct units_choice {
    uint32_t unit; /* BALANCE_NO_RANK: it waits */
    uint32_t reason;
};

struct units_choice balance_units(const struct balance_units_need *need,
                                  const struct balance_unit *units, uint32_t unit_count);

#endif
