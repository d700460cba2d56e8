/* SPDX-License-Identifier: Apache-2.0
 * Who may come in. A request that can never fit is refused on arrival; one that fits but not now
 * waits; one that starts gets pages for what is known of it and one to grow into, and must leave
 * one for every few that run, so that it does not interrupt them at once. Its answer's other pages
 * come as it grows, and when they run out, serving/policy/preempt.h decides. Pure: the same facts
 * give the same answer.
 */
#ifndef SERVING_POLICY_ADMIT_H
#define SERVING_POLICY_ADMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contract/record_unit.h"

#define ADMIT_ROWS_PER_PAGE 4 /* running requests for which a start leaves one page */

enum admit {
    ADMIT_NOW,
    ADMIT_WAIT_TURN,  /* an earlier or more urgent request waits: nobody overtakes it */
    ADMIT_WAIT_ROWS,  /* as many run as may run at once */
    ADMIT_WAIT_PAGES, /* too few pages are free */
    ADMIT_REFUSE_DRAINING,
    ADMIT_REFUSE_CONTEXT, /* prompt and answer exceed the context */
    ADMIT_REFUSE_MEMORY,  /* prompt and answer exceed the whole KV memory */
    ADMIT_REFUSE_QUEUE,   /* as many are held as may be held */
    ADMIT_COUNT
};

struct admit_need {
    uint32_t prompt_tokens;
    uint32_t new_tokens_max;
};

/* Of a unit that is asked for it: an answer is only begun where the prompt alone is computed. */
struct admit_need admit_need_of(const struct record_submit *submit);

/* KV pages that prompt and longest answer take. */
uint64_t admit_pages(struct admit_need need);

/* KV pages that a request of so many known tokens takes when it starts. */
uint64_t admit_start_pages(struct admit_need need, uint32_t known_tokens);

struct admit_house { /* what the unit is and holds */
    uint32_t context_tokens_max;
    uint32_t page_count;
    uint32_t pages_available; /* free, or cached and unleased */
    uint32_t requests_max;    /* held, waiting and running */
    uint32_t requests_held;
    uint32_t rows_max; /* running */
    uint32_t rows_running;
    bool waits; /* a request waits before this one */
    bool draining;
};

/* On arrival. */
enum admit admit_arrival(struct admit_need need, const struct admit_house *house);

/* May a request that was let in start now, if that takes so many of the pages available? Refuses
 * nothing. Where nothing runs, all pages are available and the first that waits starts. */
enum admit admit_start(uint64_t pages, const struct admit_house *house);

static inline bool admit_refuses(enum admit admit) {
    return admit >= ADMIT_REFUSE_DRAINING;
}

/* The refusal as the unit's answer. */
enum finish_reason admit_finish_reason(enum admit refusal);

#endif
