/* SPDX-License-Identifier: Apache-2.0
 * The constrained answers of one rank, by the slots of its unit. It reads step plans as the engine
 * does: a fresh row brings its constraint and its answer so far; rows behind it go on where the
 * chosen tokens led. Pure: what needs memory or time of its own (compiled constraints, matchers) is
 * lent by its host through struct constrained_lender, and so is the simulation's.
 */
#ifndef SERVING_CONSTRAINT_CONSTRAINED_ROWS_H
#define SERVING_CONSTRAINT_CONSTRAINED_ROWS_H

#include "contract/step_plan.h"
#include "serving/constraint/constrained_answer.h"

struct constrained_loan; /* the lender's own */

/* Who compiles and keeps constraints, and gives each answer its matcher. */
struct constrained_lender {
    void *context;
    /* A loan for a slot's answer: begins to compile `text` in the turn of `client`, or finds it;
     * never waits. NULL: none can be given. */
    struct constrained_loan *(*ask)(void *context, struct bytes text, uint64_t client);
    /* True once `*constraint_out` and `*matcher_out` are there; false: not yet. NULL in both: it
     * cannot be compiled, or memory is out. */
    bool (*ready)(void *context, struct constrained_loan *loan,
                  const struct constraint **constraint_out, struct matcher **matcher_out);
    void (*give_back)(void *context, struct constrained_loan *loan);
};

struct constrained_rows;

/* Of a unit with so many slots whose contexts have at most so many tokens. NULL: no memory. What
 * answers have not reached is not touched, so the arena may lie in memory that is taken lazily. */
struct constrained_rows *constrained_rows_open(struct arena *arena, uint32_t slots,
                                               uint32_t context_tokens_max,
                                               const struct constrained_lender *lender);

size_t constrained_rows_bytes(uint32_t slots, uint32_t context_tokens_max);

/* The plan is the rank's next: takes in its fresh constraints, gives back those of slots whose fresh
 * row has none. */
void constrained_rows_take(struct constrained_rows *rows, const struct step_plan *plan);
/* The same for one slot: its fresh row has this constraint of the plan's, or none. Calls for
 * different slots may come from different threads, if the lender's may. */
void constrained_rows_begin(struct constrained_rows *rows, uint32_t slot,
                            const struct step_plan *plan, const struct step_constraint *from);
void constrained_rows_end(struct constrained_rows *rows, uint32_t slot);

/* Who takes turns where the constraint is compiled: an account. Where there is none, the slot. */
uint64_t constrained_rows_client(const struct step_constraint *from);

/* What its lender gave; NULL: none. */
struct constrained_loan *constrained_rows_loan(const struct constrained_rows *rows, uint32_t slot);

enum constrained_mask {
    CONSTRAINED_MASK_FREE,  /* every token may come */
    CONSTRAINED_MASK_SET,   /* those of the mask */
    CONSTRAINED_MASK_LATE,  /* its constraint is not compiled yet */
    CONSTRAINED_MASK_STUCK, /* none ever will */
};

/* For a constrained row of that plan that samples; `mask` [word_count]. */
enum constrained_mask constrained_rows_mask(struct constrained_rows *rows, uint32_t slot,
                                            uint64_t *mask);

/* The slot's answer has got a token. At once: it is followed when somebody asks what may come. */
void constrained_rows_push(struct constrained_rows *rows, uint32_t slot, uint32_t token);

/* The tokens that must come next, at most `most`, and none behind the end; returns how many. They
 * count as told, not as pushed: the answer's next tokens are these. */
uint32_t constrained_rows_forced(struct constrained_rows *rows, uint32_t slot, uint32_t most,
                                 uint32_t *tokens_out);

#endif
