/* SPDX-License-Identifier: Apache-2.0
 * An engine that computes nothing but chains of numbers, on pages of numbers. A token's KV row is a
 * number that depends on its form and on every row before it, as they stand in the pages now, in
 * every slice; the next token depends on all of them, on the seed, the choice, the place in the
 * answer, and on what penalties would see. So an answer that goes on elsewhere with a token
 * missing, doubled or computed in the wrong form is another answer, and so is one that reads a page
 * into which somebody else wrote. What the right one is can be told without any engine
 * (fleet_engine_answer).
 * To who chats it speaks a grammar (fleet_tongue), by the same numbers. Of a constrained answer it
 * chooses among what may come, by the same numbers, and forces what alone may come.
 *
 * Engines of other numerics begin their chains elsewhere: all their rows and tokens are others.
 *
 * Tokens do not tell whose pages they were computed from where two tenants ask the same; so a page
 * also says for which salt it was written, and who reads another's is counted.
 */
#ifndef SIMULATE_FLEET_ENGINE_H
#define SIMULATE_FLEET_ENGINE_H

#include "base/arena.h"
#include "contract/slot_pages.h"
#include "simulate/fleet_constraints.h"

enum { FLEET_VOCAB = 1000, FLEET_STOP_TOKEN = 1, FLEET_SLICES = 3 };

struct fleet_page { /* whatever was written last, whoever owns it */
    uint64_t rows[FLEET_SLICES][KV_BLOCK_TOKENS];
    uint64_t salt; /* of who wrote its first row */
};

/* Nothing stands in it that anybody wrote. */
void fleet_page_spoil(struct fleet_page *page);

struct fleet_awaited {
    bool has_constraint; /* of the slot's request: it came ahead of its first row */
    bool is_told;        /* a result has named the slot since */
    bool is_wanted;      /* by a request without a row, or one whose mask was late */
    uint32_t wait;       /* so many results do not name the slot yet */
};

struct fleet_engine {
    struct fleet_page *pages; /* [page_count] */
    uint32_t page_count;
    struct slot_pages slots;
    uint32_t numerics;      /* where its chains begin */
    uint32_t foreign_reads; /* of another tenant's pages */
    bool repeats; /* a step was broken off: what was told written of it may still be on its way */
    uint64_t read[FLEET_SLICES];           /* by the row of the step that waits for its load */
    struct fleet_constraints *constraints; /* NULL: no answer is constrained */
    struct constrained_rows *bound;        /* those that are */
    uint32_t slot_count;                   /* of those */
    uint64_t mask[FLEET_MASK_WORDS];       /* of the row at hand */
    struct fleet_awaited *awaited;         /* [slot_count] what a slot's request waits for */
    uint32_t early_rows; /* that came before a result has named their slot, and must not */
};

/* With constrained rows, as fleet_engine_bind takes them. */
size_t fleet_engine_bytes(uint32_t page_count, uint32_t slots, uint32_t context_tokens_max);

/* Of a unit with so many slots. False when the arena is out of memory. */
bool fleet_engine_open(struct fleet_engine *engine, struct arena *arena, uint32_t page_count,
                       uint32_t slots, uint32_t context_tokens_max);

/* It obeys constraints. False when the arena is out of memory. */
bool fleet_engine_bind(struct fleet_engine *engine, struct arena *arena,
                       struct fleet_constraints *constraints, uint32_t slots,
                       uint32_t context_tokens_max);
/* It is gone, and gives back what it was lent. */
void fleet_engine_unbind(struct fleet_engine *engine);

/* Rows of a page's slice have this checksum. */
uint64_t fleet_engine_checksum(const uint64_t *rows, uint32_t row_count);

/* Bytes of the largest result of the plan. */
size_t fleet_engine_result_bytes(const struct step_plan *plan);

/* The step has begun: what it will write holds anything until then. `salts` [row_count]: each row's
 * tenant's. */
void fleet_engine_begin(struct fleet_engine *engine, const struct step_plan *plan,
                        const uint64_t *salts);

/* In mid-step: the row that waits for its load, if there is one, reads a slice of what stands
 * before it, as it stands now; before the step ends, each of them. */
void fleet_engine_read(struct fleet_engine *engine, const struct step_plan *plan, uint32_t slice);

/* In mid-step a slice has been written, as it will be at the end; but by the row that waits. */
void fleet_engine_write(struct fleet_engine *engine, const struct step_plan *plan, uint32_t slice);

/* LOSES: the row that waits for its load did so in vain. BREAKS: the step was broken off, and all its
 * rows come again. FAILS: it has written anything, and says so. */
enum fleet_step_end { FLEET_STEP_WHOLE, FLEET_STEP_LOSES, FLEET_STEP_BREAKS, FLEET_STEP_FAILS };

/* The step ends; `result` has room for the above; `salts` as above. */
void fleet_engine_end(struct fleet_engine *engine, const struct step_plan *plan,
                      const uint64_t *salts, enum fleet_step_end end, struct step_result *result);

/* Whatever stood in the pages is gone. */
void fleet_engine_spoil(struct fleet_engine *engine);

/* The whole answer to a prompt by an engine of these numerics: at most new_tokens_max tokens, up to the stop token, which counts.
 * `bound`: where the answer stands under its constraint, at its start; NULL: it has none. Returns
 * how many. */
uint32_t fleet_engine_answer(uint32_t numerics, const uint32_t *prompt, uint32_t prompt_count,
                             const struct sampling *sampling, struct constrained_answer *bound,
                             uint32_t new_tokens_max, uint32_t *tokens_out);

/* What is told of each token of a prompt but the first: minus scores_out[prompt_count] is the log
 * probability. */
void fleet_engine_scores(uint32_t numerics, const uint32_t *prompt, uint32_t prompt_count,
                         uint32_t *scores_out);

#endif
