/* SPDX-License-Identifier: Apache-2.0
 * Chooses the rows of the next step (continuous batching with chunked prefill). First, every
 * decoding request gets its next token. Then it gets the tokens that its constraint forces,
 * without taking any from other requests. The remaining tokens of the step, and the time by which
 * prompts may delay answers, go to prompts, in turn and in chunks. A chunk ends where the MLA mode
 * of the tokens changes, at the last known token, or on a block boundary. Batch invariance relies
 * on that (docs/architecture.md). Waiting requests start in turn and never overtake each other, so
 * large ones cannot starve.
 *
 * An interrupted request returns as a waiting one with part of its answer known. Its tokens are
 * computed again, each in its own mode, in chunks like those of a prompt.
 *
 * Pure: no state between calls, ties broken by the lowest slot. Times are doubles from
 * serving/policy/step_cost.h: same operations, same results.
 */
#pragma once

#include "serving/policy/admit.h"
#include "serving/policy/step_cost.h"

enum schedule_phase { SCHEDULE_WAITING, SCHEDULE_PREFILL, SCHEDULE_DECODE, SCHEDULE_PHASE_COUNT };

struct schedule_item {
    uint32_t slot;
    uint32_t phase; /* enum schedule_phase */
    int32_t priority;
    /* tokens with KV rows; for a waiting request, tokens in the prefix cache */
    uint32_t computed_tokens;
    uint32_t row_end;      /* latest end of its next row, > computed_tokens */
    uint32_t known_tokens; /* prompt and answer so far, >= row_end */
    uint32_t pages_needed; /* waiting: available pages that it needs to start */
    /* decode: drafts that are verified after its next token (speculate.h) */
    uint32_t draft_tokens;
    bool generated; /* the tokens up to row_end have the mode GENERATED */
    /* waiting: not looked up in the prefix cache yet, so it must not start */
    bool unseen;
    uint32_t constraint_bytes; /* bytes of constraint text that its next row must send */
    /* answer tokens that its next row must send, for the constraint; 0: the engine has them, or
     * needs none */
    uint32_t constraint_tokens;
    int64_t turn;     /* schedule_turn; lower is first */
    uint64_t arrival; /* order of arrival */
};

struct schedule_limits {
    uint32_t rows_max;         /* maximum of running requests, hence of rows in a step */
    uint32_t tokens_max;       /* maximum of tokens in a step; >= rows_max + KV_BLOCK_TOKENS */
    uint32_t chunk_tokens_max; /* maximum for one prompt in a step; >= KV_BLOCK_TOKENS */
    /* maximum for all prompts in a step; >= KV_BLOCK_TOKENS; 0: as many as fit */
    uint32_t prompt_tokens_max;
    uint32_t pages_available; /* free, or cached and not leased */
    /* constraint bytes sent with all rows; one item's need always fits */
    uint32_t constraint_bytes_max;
    uint32_t constraint_tokens_max; /* answer tokens sent with all rows */
    const struct step_cost *cost;
    /* time that prompts may add to this step; SCHEDULE_UNBOUND: unlimited */
    double prompt_ns_max;
};

#define SCHEDULE_UNBOUND 1e300

enum schedule_reason {
    SCHEDULE_NEXT_TOKEN, /* a decode row, complete */
    SCHEDULE_PROMPT_END, /* a prompt row that completes the known tokens */
    SCHEDULE_CHUNK,      /* a part of the known tokens of a prompt, or of a decode row */
    SCHEDULE_NO_TOKENS,  /* the step has too few free tokens for a block of this prompt */
    SCHEDULE_NO_TIME,    /* running answers would wait too long */
    SCHEDULE_NO_BYTES,   /* the plan has too few free bytes for its constraint */
    SCHEDULE_WAITS_TURN, /* not started: ADMIT_WAIT_TURN, _ROWS and _PAGES */
    SCHEDULE_WAITS_ROWS,
    SCHEDULE_WAITS_PAGES
};

/* The position of a request in the queue, which never changes: the time at which the prompt would
 * be computed if the request had 1 / SCHEDULE_SHARE of the machine from its arrival on. A short
 * prompt therefore does not wait behind a long one that arrived just before it. Each priority level
 * is worth priority_ns. An urgent or short request overtakes only requests that arrived a bounded
 * time before it, so none starves. work_ns: the time to compute the prompt. */
#define SCHEDULE_SHARE 6
int64_t schedule_turn(int64_t arrival_ns, int64_t work_ns, int32_t priority, int64_t priority_ns);

/* True if a precedes b, by turn, arrival, slot. */
bool schedule_goes_first(const struct schedule_item *a, const struct schedule_item *b);

/* Fills order[item_count] with item indexes: decode rows first, then all others, each in turn. */
void schedule_order(const struct schedule_item *items, uint32_t item_count, uint32_t *order);

struct schedule_choice {
    uint32_t item;        /* index in the view */
    uint32_t token_count; /* 0: not in this step */
    bool starts;          /* the request was waiting: allocate its pages now */
    uint32_t reason;      /* enum schedule_reason */
};

/* Writes one choice per item to choices_out[item_count]: first the running ones in the order of
 * their rows, then the others. Returns the number of running ones. Decode rows and their drafts
 * must leave the tokens of one block for others. `order` comes from schedule_order. */
uint32_t schedule_step(const struct schedule_item *items, uint32_t item_count,
                       const struct schedule_limits *limits, const uint32_t *order,
                       struct schedule_choice *choices_out);

/* The number of prompt tokens computed at once while answers run: SCHEDULE_PORTION_BLOCKS blocks
 * from the item's next token on, or fewer if they take longer than SCHEDULE_PORTION_ANSWERS steps
 * of decode rows alone. Large portions save work, because each portion reads its whole
 * context again. Small portions spread the delay evenly over short answers. */
#define SCHEDULE_PORTION_BLOCKS 4
#define SCHEDULE_PORTION_ANSWERS 10
uint32_t schedule_portion(const struct step_cost *cost, const struct schedule_item *item,
                          double answers_ns);

/* Limits the delay of answers by prompts. While answers run, each step earns some time for prompts.
 * Unused time is saved, up to that of one portion. On average, answers therefore take longer only
 * by the earned time, and the longest step is one portion longer. */
struct schedule_pace {
    /* target time of a step with answers and prompts; 0: use the stretch */
    int64_t target_ns;
    uint32_t stretch_percent; /* target time relative to a step with the answers alone; >= 100 */
    /* a prompt that has waited n times this long earns n times as fast, so that under overload both
     * sides yield and no prompt starves */
    int64_t patience_ns;
};

/* The time saved for prompts after this step. saved_ns: the time saved before; answers_ns: the time
 * of the step without prompts; portion_ns: the time of the next portion of the most expensive
 * prompt; waited_ns: the longest wait of a prompt. For any target, SCHEDULE_PORTION_STEPS steps
 * earn at least one portion. */
#define SCHEDULE_PORTION_STEPS 48
double schedule_earn(const struct schedule_pace *pace, double saved_ns, double answers_ns,
                     double portion_ns, int64_t waited_ns);
