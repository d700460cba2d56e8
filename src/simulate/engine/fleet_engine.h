/* SPDX-License-Identifier: Apache-2.0
 * An engine that computes chains of numbers on pages of numbers. A token's KV row is a number that
 * depends on its form and on every earlier row in the pages, in every slice. The next token depends
 * on all of them, on the seed, the choice, the position in the answer, and on the history for
 * penalties. An answer that continues on another unit with a token missing, doubled or computed in
 * the wrong form is therefore a different answer, and so is one that reads a page that another
 * request wrote to. The expected answer needs no engine (fleet_engine_answer). For chats it follows
 * a grammar (fleet_token_oracle), by the same numbers. For a constrained answer it chooses among
 * the allowed tokens, by the same numbers, and forces a token that is the only allowed one.
 *
 * Engines of other numerics begin their chains with another number: all their rows and tokens
 * differ.
 *
 * If two tenants send the same prompt, tokens do not reveal whose pages were read. A page therefore
 * also has the salt of its writer, and reads with another salt are counted.
 */
#pragma once

#include "base/arena.h"
#include "contract/slot_pages.h"
#include "simulate/engine/fleet_constraints.h"

enum { FLEET_VOCAB = 1000, FLEET_STOP_TOKEN = 1, FLEET_SLICES = 3 };

struct fleet_page { /* contents of the last write, by any request */
    uint64_t rows[FLEET_SLICES][KV_BLOCK_TOKENS];
    uint64_t salt; /* salt of the request that wrote its first row */
};

/* Fills the page with numbers that no request has written. */
void fleet_engine_page_spoil(struct fleet_page *page);

struct fleet_awaited {
    bool has_constraint; /* the slot's request has sent its constraint ahead of its first row */
    bool is_reported;    /* a result has named the slot since */
    bool is_wanted;      /* wanted by a request without a row, or with a late mask */
    uint32_t wait;       /* number of results that do not name the slot yet */
};

struct fleet_engine {
    struct fleet_page *pages; /* [page_count] */
    uint32_t page_count;
    struct slot_pages slots;
    uint32_t numerics;      /* selects the start of its chains */
    uint32_t foreign_reads; /* reads of another tenant's pages */
    bool repeats; /* a step was interrupted; a report of written slices may still be in transit */
    uint64_t read[FLEET_SLICES];           /* values read by the row that waits for its load */
    struct fleet_constraints *constraints; /* NULL: no constraints */
    struct constrained_rows *bound;        /* the constrained rows */
    uint32_t slot_count;                   /* slots of the constrained rows */
    uint64_t mask[FLEET_MASK_WORDS];       /* mask of the current row */
    struct fleet_awaited *awaited;         /* [slot_count] state of each slot's waiting request */
    uint32_t early_rows; /* rows that preceded the result for their slot; must be 0 */
};

/* Bytes for an engine with constrained rows (fleet_engine_bind). */
size_t fleet_engine_bytes(uint32_t page_count, uint32_t slots, uint32_t context_tokens_max);

/* Opens the engine of a unit with `slots` slots. Returns false if the arena is out of memory. */
bool fleet_engine_open(struct fleet_engine *engine, struct arena *arena, uint32_t page_count,
                       uint32_t slots, uint32_t context_tokens_max);

/* Enables constraints. Returns false if the arena is out of memory. */
bool fleet_engine_bind(struct fleet_engine *engine, struct arena *arena,
                       struct fleet_constraints *constraints, uint32_t slots,
                       uint32_t context_tokens_max);
/* Ends the engine and returns its loans. */
void fleet_engine_unbind(struct fleet_engine *engine);

/* The checksum of these rows of a page's slice. */
uint64_t fleet_engine_checksum(const uint64_t *rows, uint32_t row_count);

/* Bytes of the plan's largest possible result. */
size_t fleet_engine_result_bytes(const struct step_plan *plan);

/* Begins the step. The rows that it writes hold arbitrary values until its end. salts[row_count]:
 * the tenant of each row. */
void fleet_engine_begin(struct fleet_engine *engine, const struct step_plan *plan,
                        const uint64_t *salts);

/* In mid-step: if a row waits for its load, reads one slice of the rows before it, as they are now.
 * Each slice must be read before the step ends. */
void fleet_engine_read(struct fleet_engine *engine, const struct step_plan *plan, uint32_t slice);

/* In mid-step: writes a slice for all rows except the waiting one, with its final values. */
void fleet_engine_write(struct fleet_engine *engine, const struct step_plan *plan, uint32_t slice);

/* LOSES: the load of the waiting row failed. BREAKS: the step was interrupted, and all its rows
 * will run again. FAILS: the step has written arbitrary values and reports its failure. */
enum fleet_step_end { FLEET_STEP_WHOLE, FLEET_STEP_LOSES, FLEET_STEP_BREAKS, FLEET_STEP_FAILS };

/* Ends the step. `result` has fleet_engine_result_bytes; `salts` as in fleet_engine_begin. */
void fleet_engine_end(struct fleet_engine *engine, const struct step_plan *plan,
                      const uint64_t *salts, enum fleet_step_end end, struct step_result *result);

/* Discards everything in the pages. */
void fleet_engine_spoil(struct fleet_engine *engine);

/* The whole answer to a prompt by an engine of these numerics: at most new_tokens_max tokens, up to
 * the stop token, which counts. `bound`: the state of the answer's constraint at its start, or
 * NULL. Returns the number of tokens. */
uint32_t fleet_engine_answer(uint32_t numerics, const uint32_t *prompt, uint32_t prompt_count,
                             const struct sampling *sampling, struct constrained_answer *bound,
                             uint32_t new_tokens_max, uint32_t *tokens_out);

/* The log probabilities of a prompt's tokens except the first: minus scores_out[prompt_count]. */
void fleet_engine_scores(uint32_t numerics, const uint32_t *prompt, uint32_t prompt_count,
                         uint32_t *scores_out);
