/* SPDX-License-Identifier: Apache-2.0
 * A simulated engine that computes hashes instead of a model. The KV row of a token is a number
 * that depends on its form (prompt or generated) and on every earlier row in the pages, in every
 * slice. As in models with sparse attention, a slice has a second group of rows, the index keys. A
 * key follows from its row, and a wrong key counts as a wrong row. The next token depends on all
 * rows, the seed, the choice, the position in the answer, and the token history for penalties. So
 * if an answer continues on another unit with a token missing, repeated or computed in the wrong
 * form, the rest of the answer differs. The same happens if it reads a page that another request
 * has overwritten.
 *
 * The expected answer is computed without an engine (fleet_engine_answer). Chat answers follow the
 * language of fleet_token_oracle. Constrained answers choose among the allowed tokens, and a token
 * that is the only allowed one is forced. Engines with other numerics start from another number, so
 * all their rows and tokens differ.
 *
 * If two tenants send the same prompt, tokens cannot show that one read the pages of the other. So
 * each page also stores the salt of its writer, and reads with another salt are counted.
 */
#pragma once

#include "base/arena.h"
#include "contract/slot_pages.h"
#include "simulate/engine/fleet_constraints.h"

enum { FLEET_VOCAB = 1000, FLEET_STOP_TOKEN = 1, FLEET_SLICES = 3 };
enum { FLEET_GROUP_ROWS, FLEET_GROUP_KEYS, FLEET_GROUPS }; /* as in contract/kv_block.h */

struct fleet_slice { /* the numbers written last, by any request */
    uint64_t groups[FLEET_GROUPS][KV_BLOCK_TOKENS];
};

struct fleet_page {
    struct fleet_slice slices[FLEET_SLICES];
    uint64_t salt; /* of the request that wrote the first row */
};

/* Fills the page with numbers that no request writes. */
void fleet_engine_page_spoil(struct fleet_page *page);

struct fleet_awaited {
    bool has_constraint; /* the request of the slot has sent its constraint before its first row */
    bool is_reported;    /* a step result has reported it as ready since */
    bool is_wanted;      /* by a request without a row, or with a late mask */
    uint32_t wait;       /* number of further results that do not report it */
};

struct fleet_engine {
    struct fleet_page *pages; /* [page_count] */
    uint32_t page_count;
    struct slot_pages slots;
    uint32_t numerics;      /* selects the number that it starts from */
    uint32_t foreign_reads; /* reads of pages of other tenants */
    bool repeats; /* a step was interrupted; a report of written slices may still be in transit */
    uint64_t read[FLEET_SLICES];           /* sum of the rows that the waiting row has read */
    struct fleet_constraints *constraints; /* NULL: no constraints */
    struct constrained_rows *bound;        /* the constrained rows */
    uint32_t slot_count;                   /* number of slots */
    uint64_t mask[FLEET_MASK_WORDS];       /* of the current row */
    struct fleet_awaited *awaited;         /* [slot_count] */
    uint32_t early_rows; /* rows sent before their constraint was ready; must be 0 */
};

/* Bytes for an engine with constraints (fleet_engine_bind). */
size_t fleet_engine_bytes(uint32_t page_count, uint32_t slots, uint32_t context_tokens_max);

/* Opens the engine of a unit with `slots` slots. Returns false if the arena is out of memory. */
bool fleet_engine_open(struct fleet_engine *engine, struct arena *arena, uint32_t page_count,
                       uint32_t slots, uint32_t context_tokens_max);

/* Enables constraints. Returns false if the arena is out of memory. */
bool fleet_engine_bind(struct fleet_engine *engine, struct arena *arena,
                       struct fleet_constraints *constraints, uint32_t slots,
                       uint32_t context_tokens_max);
/* Ends all constrained rows and returns their loans. */
void fleet_engine_unbind(struct fleet_engine *engine);

/* The checksum of the first `row_count` tokens of a page's slice. */
uint64_t fleet_engine_checksum(const struct fleet_slice *slice, uint32_t row_count);

/* Copies the tokens [from, end) of a slice. */
void fleet_engine_copy(struct fleet_slice *to, const struct fleet_slice *slice, uint32_t from,
                       uint32_t end);

/* The largest size of the plan's result, in bytes. */
size_t fleet_engine_result_bytes(const struct step_plan *plan);

/* Begins the step. Until its end, the rows that it writes have arbitrary values. salts[row_count]:
 * the tenant of each row. */
void fleet_engine_begin(struct fleet_engine *engine, const struct step_plan *plan,
                        const uint64_t *salts);

/* During a step: if a row waits for a load, reads one slice of the rows before it as they are now.
 * Every slice must be read before the step ends. */
void fleet_engine_read(struct fleet_engine *engine, const struct step_plan *plan, uint32_t slice);

/* During a step: writes the final values of a slice for all rows except the waiting one. */
void fleet_engine_write(struct fleet_engine *engine, const struct step_plan *plan, uint32_t slice);

/* LOSES: the load of the waiting row failed. BREAKS: the step was interrupted, and all its rows
 * will run again. FAILS: the step wrote arbitrary values and reports a failure. */
enum fleet_step_end { FLEET_STEP_WHOLE, FLEET_STEP_LOSES, FLEET_STEP_BREAKS, FLEET_STEP_FAILS };

/* Ends the step. `result` has space for fleet_engine_result_bytes; `salts` is as in
 * fleet_engine_begin. */
void fleet_engine_end(struct fleet_engine *engine, const struct step_plan *plan,
                      const uint64_t *salts, enum fleet_step_end end, struct step_result *result);

/* Overwrites all pages with numbers that no request writes. */
void fleet_engine_spoil(struct fleet_engine *engine);

/* Computes the complete answer to a prompt with these numerics: at most new_tokens_max tokens, up
 * to and including the stop token. `bound` is the state of the answer's constraint at its start, or
 * NULL. Returns the number of tokens. */
uint32_t fleet_engine_answer(uint32_t numerics, const uint32_t *prompt, uint32_t prompt_count,
                             const struct sampling *sampling, struct constrained_answer *bound,
                             uint32_t new_tokens_max, uint32_t *tokens_out);

/* Computes the negated log probabilities of all prompt tokens but the first:
 * scores_out[prompt_count]. */
void fleet_engine_scores(uint32_t numerics, const uint32_t *prompt, uint32_t prompt_count,
                         uint32_t *scores_out);
