/* SPDX-License-Identifier: Apache-2.0
 * Admission of requests to a unit. A request that can never fit is refused on arrival. A request
 * that does not fit now waits. A request that starts gets KV pages for its known tokens and one
 * page to grow. It must also leave one free page for every few running requests, so that it does
 * not preempt them at once. Further pages are allocated as the answer grows. When none is left,
 * serving/policy/preempt.h decides.
 *
 * Pure: the same input gives the same result.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contract/record_unit.h"

#define ADMIT_ROWS_PER_PAGE 4 /* a start must leave one page free for this many running requests */

enum admit {
    ADMIT_NOW,
    ADMIT_WAIT_TURN,  /* an earlier or more urgent request waits, and none may overtake it */
    ADMIT_WAIT_ROWS,  /* the limit of running requests is reached */
    ADMIT_WAIT_PAGES, /* too few pages are free */
    ADMIT_REFUSE_DRAINING,
    ADMIT_REFUSE_CONTEXT, /* prompt and answer exceed the context */
    ADMIT_REFUSE_MEMORY,  /* prompt and answer exceed the whole KV memory */
    ADMIT_REFUSE_QUEUE,   /* the limit of requests held is reached */
    ADMIT_COUNT
};

struct admit_need {
    uint32_t prompt_tokens;
    uint32_t new_tokens_max;
};

/* The need of a request at its unit. A unit that only prefills the prompt needs space for only the
 * first token of the answer. */
struct admit_need admit_need_of(const struct record_submit *submit);

/* The KV pages of the prompt and the longest answer. */
uint64_t admit_pages(struct admit_need need);

/* The KV pages that a request with `known_tokens` tokens allocates when it starts. */
uint64_t admit_start_pages(struct admit_need need, uint32_t known_tokens);

struct unit_capacity { /* the limits of the unit and their current use */
    uint32_t context_tokens_max;
    uint32_t page_count;
    uint32_t pages_available; /* free, or cached and not leased */
    uint32_t requests_max;    /* waiting and running */
    uint32_t requests_held;
    uint32_t rows_max; /* running */
    uint32_t rows_running;
    bool waits; /* another request waits ahead of this one */
    bool draining;
};

/* Decides on arrival. */
enum admit admit_arrival(struct admit_need need, const struct unit_capacity *capacity);

/* Decides whether an admitted request may start now if it needs `pages` available pages. Never
 * refuses. If nothing runs, all pages are available, so the first waiting request starts. */
enum admit admit_start(uint64_t pages, const struct unit_capacity *capacity);

static inline bool admit_refuses(enum admit admit) {
    return admit >= ADMIT_REFUSE_DRAINING;
}

/* The finish reason that the unit reports for a refusal. */
enum finish_reason admit_finish_reason(enum admit refusal);
