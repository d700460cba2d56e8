/* SPDX-License-Identifier: Apache-2.0
 * The constrained answers of one rank, by the slots of its unit. They follow the step plans as the
 * engine does: the plan of a fresh row contains its constraint and its answer so far, and later
 * rows continue with the sampled tokens. The code does no I/O. The host, or the simulation,
 * provides compiled constraints and matchers through struct constrained_lender.
 */
#pragma once

#include "contract/step_plan.h"
#include "serving/constraint/constrained_answer.h"

struct constrained_loan; /* defined by the lender */

/* Compiles and caches constraints, and provides a matcher for each answer. */
struct constrained_lender {
    void *context;
    /* Starts a loan for a slot's answer. The lender finds `text` in its cache, or queues it for
     * compilation in the turn of `client`. Never waits. Returns NULL if no loan is available. */
    struct constrained_loan *(*ask)(void *context, struct bytes text, uint64_t client);
    /* Returns true once `*constraint_out` and `*matcher_out` are set. Both are NULL if the
     * constraint cannot be compiled, or memory is out. */
    bool (*ready)(void *context, struct constrained_loan *loan,
                  const struct constraint **constraint_out, struct matcher **matcher_out);
    void (*give_back)(void *context, struct constrained_loan *loan);
};

struct constrained_rows;

/* Creates the rows of a unit with `slots` slots and contexts of at most context_tokens_max tokens.
 * Returns NULL if memory is out. Memory is touched only as answers grow, so the arena's pages may
 * be allocated lazily. */
struct constrained_rows *constrained_rows_open(struct arena *arena, uint32_t slots,
                                               uint32_t context_tokens_max,
                                               const struct constrained_lender *lender);

size_t constrained_rows_bytes(uint32_t slots, uint32_t context_tokens_max);

/* Processes the rank's next plan: begins the answers of its fresh constrained rows, and ends those
 * of slots that now have a fresh row without a constraint. */
void constrained_rows_take(struct constrained_rows *rows, const struct step_plan *plan);
/* The same for one slot: `begin` if its fresh row has this constraint of the plan, `end` (which
 * returns the loan) if it has none. Different threads may make these calls for different slots if
 * the lender allows that. */
void constrained_rows_begin(struct constrained_rows *rows, uint32_t slot,
                            const struct step_plan *plan, const struct step_constraint *from);
void constrained_rows_end(struct constrained_rows *rows, uint32_t slot);

/* The client for the compiler's fair queue: the tenant or, without one, the slot. */
uint64_t constrained_rows_client(const struct step_constraint *from);

/* The lender's loan for the slot, or NULL. */
struct constrained_loan *constrained_rows_loan(const struct constrained_rows *rows, uint32_t slot);

enum constrained_mask {
    CONSTRAINED_MASK_FREE,  /* every token is allowed */
    CONSTRAINED_MASK_SET,   /* the tokens of the mask are allowed */
    CONSTRAINED_MASK_LATE,  /* the constraint is not compiled yet */
    CONSTRAINED_MASK_STUCK, /* no mask will ever be available */
};

/* Computes the grammar mask, [word_count], of a constrained row that samples in this step. */
enum constrained_mask constrained_rows_mask(struct constrained_rows *rows, uint32_t slot,
                                            uint64_t *mask);

/* Adds a token to the slot's answer. Returns at once, because the matcher advances only later. */
void constrained_rows_push(struct constrained_rows *rows, uint32_t slot, uint32_t token);

/* Writes the tokens that must follow, at most `most` and none after the end. Returns their number.
 * They are not pushed yet, but the next tokens pushed must be these. */
uint32_t constrained_rows_forced(struct constrained_rows *rows, uint32_t slot, uint32_t most,
                                 uint32_t *tokens_out);
