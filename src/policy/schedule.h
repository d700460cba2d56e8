/* SPDX-License-Identifier: Apache-2.0
 * What the next step runs. First every request that generates gets its one token; what is left of
 * the step's tokens goes to prompts, the most urgent first, earlier before later, in chunks. A
 * chunk ends at the prompt's end or on a block boundary: half of the batch invariance promise rests
 * on that (docs/architecture.md). Waiting requests start in the same order and never overtake each
 * other, so a large one cannot starve.
 *
 * Pure: no state between calls, integers only, ties broken by the lowest slot.
 */
#ifndef POLICY_SCHEDULE_H
#define POLICY_SCHEDULE_H

#include "policy/admit.h"

enum schedule_phase { SCHEDULE_WAITING, SCHEDULE_PREFILL, SCHEDULE_DECODE, SCHEDULE_PHASE_COUNT };

struct schedule_item {
    uint32_t slot;
    uint32_t phase; /* enum schedule_phase */
    int32_t priority;
    uint32_t prompt_tokens;
    uint32_t computed_tokens; /* of the prompt */
    uint32_t new_tokens_max;
    uint64_t arrival; /* lower came first */
};

struct schedule_limits {
    uint32_t rows_max;         /* requests running at once, hence rows in a step */
    uint32_t tokens_max;       /* in a step; >= rows_max + KV_BLOCK_TOKENS */
    uint32_t chunk_tokens_max; /* of one prompt in a step; >= KV_BLOCK_TOKENS */
    uint32_t pages_free;
};

enum schedule_reason {
    SCHEDULE_NEXT_TOKEN, /* a decode row */
    SCHEDULE_PROMPT_END, /* the prompt, or the rest of it */
    SCHEDULE_CHUNK,      /* a part of the prompt that ends on a block boundary */
    SCHEDULE_NO_TOKENS,  /* the step has no room for a block of this prompt */
    SCHEDULE_WAITS_TURN, /* not started: the reasons of admit */
    SCHEDULE_WAITS_ROWS,
    SCHEDULE_WAITS_PAGES,
    SCHEDULE_REASON_COUNT
};

/* Short lower-case text, for logs and traces. */
const char *schedule_reason_name(enum schedule_reason reason);

struct schedule_choice {
    uint32_t item;        /* index in the view */
    uint32_t token_count; /* 0: not in this step */
    bool starts;          /* was waiting: reserve its pages now */
    uint32_t reason;      /* enum schedule_reason */
};

/* Puts one choice per item into choices_out[item_count]: those that run first, in the order of
 * their rows, then those that do not. Returns how many run. `order` is scratch [item_count]. */
uint32_t schedule_step(const struct schedule_item *items, uint32_t item_count,
                       const struct schedule_limits *limits, int64_t now_ns, uint32_t *order,
                       struct schedule_choice *choices_out);

#endif
