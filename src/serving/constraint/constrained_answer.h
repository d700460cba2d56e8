/* SPDX-License-Identifier: Apache-2.0
 * The state of one constrained answer: still free, inside the form, or ended. It depends only on
 * the answer's tokens. Every rank and unit therefore computes the same state, however the tokens
 * are split into steps.
 */
#pragma once

#include "serving/constraint/constraint.h"

enum constrained_place {
    /* every token is allowed, but end tokens only if `waits_behind` is false */
    CONSTRAINED_FREE,
    CONSTRAINED_BOUND, /* only tokens that the form allows */
    CONSTRAINED_ENDED, /* after an end token */
    CONSTRAINED_STUCK  /* a forbidden token was pushed, or the matcher is out of memory */
};

struct constrained_answer {
    const struct constraint *constraint;
    struct matcher *matcher; /* its grammar was opened for constraint->form */
    const uint32_t *stops;   /* [stop_count] end tokens; borrowed */
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

/* Computes the grammar mask of the next token: bit t % 64 of word t / 64 is set if token t is
 * allowed. End tokens are included if the answer may end, and only the first of them if it must
 * end. Returns false, without writing, if every token is allowed. If none is allowed, the answer
 * becomes CONSTRAINED_STUCK. `mask` has the trie's word_count words. */
bool constrained_answer_mask(struct constrained_answer *answer, uint64_t *mask);

/* Finds the only token allowed next. Returns false if there is a choice, or if it would be
 * expensive to find out. The call is cheap. */
bool constrained_answer_forced(struct constrained_answer *answer, uint32_t *token_out);
