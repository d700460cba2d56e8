/* SPDX-License-Identifier: Apache-2.0
 * What the next step runs. First every request that generates gets its one token, and behind that
 * those that its constraint has forced, as many as leave the others theirs; what is left of
 * the step's tokens, and of the time that prompts may take beside answers, goes to prompts, in
 * turn, in chunks. A chunk ends where the tokens' form changes, at the last known token or on a
 * block boundary: half of the batch invariance promise rests on that (docs/architecture.md).
 * Requests that wait start in turn and never overtake each other, so a large one cannot starve.
 *
 * An interrupted request comes back as one that waits with some of its answer known: its tokens are
 * computed again in their own forms, in chunks like a prompt's.
 *
 * Pure: no state between calls, ties broken by the lowest slot. Times are doubles from
 * serving/policy/step_cost.h: same operations, same results.
 */
#ifndef SERVING_POLICY_SCHEDULE_H
#define SERVING_POLICY_SCHEDULE_H

#include "serving/policy/admit.h"
#include "serving/policy/step_cost.h"

enum schedule_phase { SCHEDULE_WAITING, SCHEDULE_PREFILL, SCHEDULE_DECODE, SCHEDULE_PHASE_COUNT };

struct schedule_item {
    uint32_t slot;
    uint32_t phase; /* enum schedule_phase */
    int32_t priority;
    uint32_t computed_tokens;   /* a request that waits: what the cache holds for it */
    uint32_t row_end;           /* where its next row ends at the latest, > computed_tokens */
    uint32_t known_tokens;      /* prompt and answer so far, >= row_end */
    uint32_t pages_needed;      /* waiting: what starting takes of the pages available */
    uint32_t draft_tokens;      /* decode: computed behind its one token (speculate.h) */
    bool generated;             /* the form of the tokens up to row_end */
    bool unseen;                /* waiting: not looked up in the cache yet, so not to start */
    uint32_t constraint_bytes;  /* what its next row has to bring along: its constraint's text */
    uint32_t constraint_tokens; /* and the answer so far; 0: the engine knows both, or needs none */
    int64_t turn;               /* schedule_turn; lower goes first */
    uint64_t arrival;           /* lower came first */
};

struct schedule_limits {
    uint32_t rows_max;         /* requests running at once, hence rows in a step */
    uint32_t tokens_max;       /* in a step; >= rows_max + KV_BLOCK_TOKENS */
    uint32_t chunk_tokens_max; /* of one prompt in a step; >= KV_BLOCK_TOKENS */
    uint32_t
        prompt_tokens_max;    /* of all prompts in a step; >= KV_BLOCK_TOKENS; 0: as many as fit */
    uint32_t pages_available; /* free, or cached and unleased */
    uint32_t constraint_bytes_max;  /* brought along by all rows; what one item needs fits */
    uint32_t constraint_tokens_max; /* of answers so far, brought along by all rows */
    const struct step_cost *cost;
    double prompt_ns_max; /* what prompts may add to this step; SCHEDULE_UNBOUND */
};

#define SCHEDULE_UNBOUND 1e300

enum schedule_reason {
    SCHEDULE_NEXT_TOKEN, /* a decode row, all of it */
    SCHEDULE_PROMPT_END, /* all that is known, or the rest of it */
    SCHEDULE_CHUNK,      /* a part of it, or of a decode row */
    SCHEDULE_NO_TOKENS,  /* the step has no room for a block of this prompt */
    SCHEDULE_NO_TIME,    /* answers that run would wait too long */
    SCHEDULE_NO_BYTES,   /* the plan has no room for its constraint */
    SCHEDULE_WAITS_TURN, /* not started: the reasons of admit */
    SCHEDULE_WAITS_ROWS,
    SCHEDULE_WAITS_PAGES
};

/* A place in the line that never changes: the time at which a request would be through that has an
 * SCHEDULE_SHARE-th part of the machine to itself from its arrival on, so that a short prompt does
 * not wait behind a long one that came just before. Each step of priority is worth priority_ns. An
 * urgent or short request overtakes only those that came less than that before it: nobody waits
 * forever. work_ns: the time to compute the prompt. */
#define SCHEDULE_SHARE 6
int64_t schedule_turn(int64_t arrival_ns, int64_t work_ns, int32_t priority, int64_t priority_ns);

/* By turn, arrival, slot. */
bool schedule_goes_first(const struct schedule_item *a, const struct schedule_item *b);

/* Fills order[item_count]: decode rows, then all others, each in turn. */
void schedule_order(const struct schedule_item *items, uint32_t item_count, uint32_t *order);

struct schedule_choice {
    uint32_t item;        /* index in the view */
    uint32_t token_count; /* 0: not in this step */
    bool starts;          /* was waiting: take its pages now */
    uint32_t reason;      /* enum schedule_reason */
};

/* Puts one choice per item into choices_out[item_count] (decode rows and their drafts must leave a
 * block's tokens to others): those that run first, in the order of
 * their rows, then those that do not. Returns how many run. `order` is schedule_order's. */
uint32_t schedule_step(const struct schedule_item *items, uint32_t item_count,
                       const struct schedule_limits *limits, const uint32_t *order,
                       struct schedule_choice *choices_out);

/* How many tokens of a prompt are computed at once beside answers: the item's next one to
 * SCHEDULE_PORTION_BLOCKS blocks, fewer where they take longer than SCHEDULE_PORTION_ANSWERS steps
 * of the answers alone. Large portions save work, since each reads back its whole context; small
 * ones make short answers wait alike. */
#define SCHEDULE_PORTION_BLOCKS 4
#define SCHEDULE_PORTION_ANSWERS 10
uint32_t schedule_portion(const struct step_cost *cost, const struct schedule_item *item,
                          double answers_ns);

/* How the time of answers is kept. Beside running answers, each step earns prompts some time, which
 * they may save up for a portion and no further: answers then take at most so much longer on
 * average, and the longest step is one portion longer. */
struct schedule_pace {
    int64_t target_ns;        /* wanted for a step with answers and prompts; 0: by stretch */
    uint32_t stretch_percent; /* wanted, of a step with the answers alone; >= 100 */
    int64_t patience_ns; /* a prompt that has waited n times as long earns n times as fast: under
                          * overload both sides give, and no prompt starves */
};

/* The time saved for prompts after this step's earnings: `saved_ns` from before, `answers_ns` the
 * step without prompts, `portion_ns` the dearest prompt's next portion, `waited_ns` the longest
 * time that a prompt has waited. At least one portion in SCHEDULE_PORTION_STEPS steps is earned,
 * whatever the target. */
#define SCHEDULE_PORTION_STEPS 48
double schedule_earn(const struct schedule_pace *pace, double saved_ns, double answers_ns,
                     double portion_ns, int64_t waited_ns);

#endif
