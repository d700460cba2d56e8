/* SPDX-License-Identifier: Apache-2.0
 * The state of one answer under its constraint: free so far, in its form, or after its end. It
 * depends only on the answer's tokens, so it is the same at every rank and unit, for any split of
 * the tokens into steps.
 */
#ifndef SERVING_CONSTRAINT_CONSTRAINED_ANSWER_H
#define SERVING_CONSTRAINT_CONSTRAINED_ANSWER_H

#include "serving/constraint/constraint.h"

enum constrained_place {
    CONSTRAINED_FREE,  /* every token is allowed; an end token only if `behind` is no longer
                        * awaited */
    CONSTRAINED_BOUND, /* tokens that the form allows */
    CONSTRAINED_ENDED, /* after an end token */
    CONSTRAINED_STUCK  /* a forbidden token was pushed, or the matcher is out of memory */
};

struct constrained_answer {
    const struct constraint *constraint;
    struct matcher *matcher; /* of a grammar opened for constraint->form */
    const uint32_t *stops;   /* [stop_count] tokens that end the answer; kept by reference */
    uint32_t stop_count;
    uint32_t token_count; /* pushed so far */
    uint8_t place;        /* enum constrained_place */
    bool waits_behind;    /* `behind` has not been pushed yet */
    struct grammar_position at;
};

/* Starts an answer without tokens. */
void constrained_answer_begin(struct constrained_answer *answer,
                              const struct constraint *constraint, struct matcher *matcher,
                              const uint32_t *stops, uint32_t stop_count);

/* Pushes the answer's next token. */
void constrained_answer_push(struct constrained_answer *answer, uint32_t token);

/* The tokens allowed next: bit t % 64 of word t / 64 for each, including end tokens if the answer
 * may end (only the first of them if it must). False: every token is allowed, and nothing is
 * written. If none is allowed, the answer becomes CONSTRAINED_STUCK. `mask` has the trie's
 * word_count words. */
bool constrained_answer_mask(struct constrained_answer *answer, uint64_t *mask);

/* The only token allowed next. False: there is a choice, or it would be expensive to know.
 * Cheap. */
bool constrained_answer_forced(struct constrained_answer *answer, uint32_t *token_out);

#endif
