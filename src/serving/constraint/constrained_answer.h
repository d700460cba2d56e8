/* SPDX-License-Identifier: Apache-2.0
 * The state of one answer under its constraint: still free, inside the form, or ended. It depends
 * only on the answer's tokens, so it is the same at every rank and unit, for any split of the
 * tokens into steps.
 */
#pragma once

#include "serving/constraint/constraint.h"

enum constrained_place {
    /* every token is allowed; an end token only if `behind` has been pushed or is not required */
    CONSTRAINED_FREE,
    CONSTRAINED_BOUND, /* only tokens that the form allows */
    CONSTRAINED_ENDED, /* after an end token */
    CONSTRAINED_STUCK  /* a forbidden token was pushed, or the matcher is out of memory */
};

struct constrained_answer {
    const struct constraint *constraint;
    struct matcher *matcher; /* of a grammar opened for constraint->form */
    const uint32_t *stops;   /* [stop_count] tokens that end the answer; borrowed */
    uint32_t stop_count;
    uint32_t token_count; /* pushed so far */
    uint8_t place;        /* enum constrained_place */
    bool waits_behind;    /* `behind` is required and has not been pushed */
    struct grammar_position at;
};

/* Starts an answer without tokens. */
void constrained_answer_begin(struct constrained_answer *answer,
                              const struct constraint *constraint, struct matcher *matcher,
                              const uint32_t *stops, uint32_t stop_count);

/* Pushes the answer's next token. */
void constrained_answer_push(struct constrained_answer *answer, uint32_t token);

/* Computes the tokens allowed next: bit t % 64 of word t / 64 for each, including end tokens if the
 * answer may end (only the first of them if it must). Returns false, without writing, if every
 * token is allowed. If none is allowed, the answer becomes CONSTRAINED_STUCK. `mask` has the trie's
 * word_count words. */
bool constrained_answer_mask(struct constrained_answer *answer, uint64_t *mask);

/* Finds the only token allowed next. Returns false if there is a choice, or if finding out would be
 * expensive. Cheap. */
bool constrained_answer_forced(struct constrained_answer *answer, uint32_t *token_out);
