/* SPDX-License-Identifier: Apache-2.0
 * The constrained answers of one rank, by the slots of its unit. It reads step plans as the engine
 * does: a fresh row has its constraint and its answer so far; later rows continue with the chosen
 * tokens. Pure: the host, or the simulation, provides what needs memory or time (compiled
 * constraints, matchers) through struct constrained_lender.
 */
#pragma once

#include "contract/step_plan.h"
#include "serving/constraint/constrained_answer.h"

struct constrained_loan; /* defined by the lender */

/* Compiles and caches constraints, and provides a matcher for each answer. */
struct constrained_lender {
    void *context;
    /* Starts a loan for a slot's answer: begins to compile `text` in the turn of `client`, or finds
     * it in the cache. Never waits. Returns NULL if no loan is available. */
    struct constrained_loan *(*ask)(void *context, struct bytes text, uint64_t client);
    /* Returns true once `*constraint_out` and `*matcher_out` are set. Both are NULL if the
     * constraint cannot be compiled, or memory is out. */
    bool (*ready)(void *context, struct constrained_loan *loan,
                  const struct constraint **constraint_out, struct matcher **matcher_out);
    void (*give_back)(void *context, struct constrained_loan *loan);
};

struct constrained_rows;

/* For a unit with `slots` slots and contexts of at most context_tokens_max tokens. Returns NULL if
 * memory is out. Memory is touched only as answers grow, so the arena may be allocated lazily. */
struct constrained_rows *constrained_rows_open(struct arena *arena, uint32_t slots,
                                               uint32_t context_tokens_max,
                                               const struct constrained_lender *lender);

size_t constrained_rows_bytes(uint32_t slots, uint32_t context_tokens_max);

/* Processes the rank's next plan: adds its fresh constraints, and returns the loans of slots that
 * have a fresh row without a constraint. */
void constrained_rows_take(struct constrained_rows *rows, const struct step_plan *plan);
/* The same for one slot: its fresh row has this constraint of the plan, or none. Calls for
 * different slots may be on different threads if the lender allows that. */
void constrained_rows_begin(struct constrained_rows *rows, uint32_t slot,
                            const struct step_plan *plan, const struct step_constraint *from);
void constrained_rows_end(struct constrained_rows *rows, uint32_t slot);

/* The client in the fair queue of the compiler: a tenant or, without one, the slot. */
uint64_t constrained_rows_client(const struct step_constraint *from);

/* The lender's loan for the slot; NULL if there is none. */
struct constrained_loan *constrained_rows_loan(const struct constrained_rows *rows, uint32_t slot);

enum constrained_mask {
    CONSTRAINED_MASK_FREE,  /* every token is allowed */
    CONSTRAINED_MASK_SET,   /* the tokens of the mask are allowed */
    CONSTRAINED_MASK_LATE,  /* the constraint is not compiled yet */
    CONSTRAINED_MASK_STUCK, /* no mask will ever be available */
};

/* Computes the mask, [word_count], of a constrained row that samples in that plan. */
enum constrained_mask constrained_rows_mask(struct constrained_rows *rows, uint32_t slot,
                                            uint64_t *mask);

/* Adds a token to the slot's answer. Returns at once; the automaton advances when a mask is
 * needed. */
void constrained_rows_push(struct constrained_rows *rows, uint32_t slot, uint32_t token);

/* Writes the tokens that must follow, at most `most`, and none after the end; returns their number.
 * They count as reported, but not as pushed: the answer's next tokens must be these. */
uint32_t constrained_rows_forced(struct constrained_rows *rows, uint32_t slot, uint32_t most,
                                 uint32_t *tokens_out);
