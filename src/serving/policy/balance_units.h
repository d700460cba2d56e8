/* SPDX-License-Identifier: Apache-2.0
 * Which unit of a fleet gets a request. Binding is late: a request waits at the gateway until a
 * unit has little waiting, so that what is known of the units is fresh, a unit that joins finds
 * work, and one that is lost takes little with it. Among those that take, the one with the smallest
 * share of its requests and of its KV pages in use gets it: units may differ in size.
 *
 * A unit that is thought to have part of the prompt may have a larger share than others, and still
 * gets it: by so much the more, the more of the prompt it saves, and never by more than a bound. So
 * a prefix that everybody has makes no unit hot:
 *
 *   share - (BALANCE_UNITS_LEAN * smallest share + BALANCE_UNITS_LEAN_REQUESTS * ranks / requests
 *            that the unit takes) * tokens saved / prompt
 *
 * Units that only compute prompts keep nothing of them, so among those it is time that counts. Their
 * shares fall when a step ends and its prompts leave, just when whoever comes has to wait for all of
 * the next step. The unit gets the request where it waits least:
 *
 *   until the running step ends + BALANCE_UNITS_BEFORE * what the prompts that are there will take
 *   - what is saved of its own
 *
 * Pure. Doubles with fixed operations in a fixed order; ties go to the smaller share, then to the
 * lowest unit.
 */
#ifndef SERVING_POLICY_BALANCE_UNITS_H
#define SERVING_POLICY_BALANCE_UNITS_H

#include "serving/policy/balance.h"

/* Requests that may wait at a unit, for each of its ranks: so many that its next steps find work
 * and its own order of turns has a choice. */
#define BALANCE_UNITS_WAITING 8

#define BALANCE_UNITS_LEAN 0.25
#define BALANCE_UNITS_LEAN_REQUESTS 4 /* and so many requests a rank */

/* Of the prompts at a unit, by time: so much comes before one that joins them. The ranks' chunks
 * are computed side by side, so it is not all. */
#define BALANCE_UNITS_BEFORE 0.5

/* Loading a token from a storage that units share is worth so much less than having it. */
#define BALANCE_UNITS_LOADED 0.75

struct balance_unit {
    bool takes;                      /* serves, and is not draining */
    bool full;                       /* has just said that it has no room */
    uint32_t role;                   /* enum unit_role */
    uint32_t numerics;               /* < 64: units with the same number compute alike */
    bool movable;                    /* it can be given another one */
    uint32_t rank_count;             /* >= 1 */
    uint32_t context_tokens_max;     /* prompt and answer of one request */
    uint32_t rank_pages;             /* of its largest rank: a request lives in one rank */
    uint32_t requests, requests_max; /* bound to it; requests_max >= 1 */
    uint32_t waiting;                /* of them, not running yet */
    uint64_t pages_total;            /* >= 1 */
    uint64_t pages_taken;            /* held by those that run, promised to those that wait */
    double step_left_ns;             /* until its running step is likely to end; 0: none runs */
    double prompts_ns;               /* what the prompts that are there will take, about */
    double token_ns;                 /* what a rank takes for a token of a prompt, about */
};

#define BALANCE_ROLE(role) (1u << (role))

struct balance_units_need {
    uint64_t tokens;            /* prompt and longest answer */
    uint64_t page_count;        /* for them */
    uint64_t start_pages;       /* for what is known of it now */
    uint32_t partner;           /* a unit that has the same prompt already, taken if it takes; else
                                 * BALANCE_NO_RANK */
    uint32_t avoided_unit;      /* a unit where it failed: only if nobody else is large enough; or
                                 * BALANCE_NO_RANK */
    uint64_t numerics;          /* a bit each: only units with these; 0: any */
    uint32_t roles;             /* BALANCE_ROLE of those wanted; if none such serves, any will do */
    uint32_t prompt_tokens;     /* >= 1 if hit_tokens is given */
    const uint32_t *hit_tokens; /* [unit_count] of the prompt, that need not be computed there;
                                 * NULL: nothing is known of that */
};

enum units_reason {
    UNITS_BOUND,         /* the smallest share in use */
    UNITS_BOUND_PREFIX,  /* not the smallest, but it has part of the prompt */
    UNITS_BOUND_PARTNER, /* where its prompt is computed anyway */
    UNITS_BOUND_SOONEST, /* where its prompt waits least, what it need not compute counted in */
    UNITS_WAITS_ROOM,    /* every unit that could take it has enough waiting */
    UNITS_WAITS_SIZE,    /* no unit that serves is large enough */
    UNITS_WAITS_UNIT,    /* no unit serves */
    UNITS_REASON_COUNT
};

/* Short lower-case text, for logs and traces. */
const char *units_reason_name(enum units_reason reason);

struct units_choice {
    uint32_t unit; /* BALANCE_NO_RANK: it waits */
    uint32_t reason;
};

struct units_choice balance_units(const struct balance_units_need *need,
                                  const struct balance_unit *units, uint32_t unit_count);

#endif
