/* SPDX-License-Identifier: Apache-2.0
 * Where one answer stands under its constraint: free so far, in its form, or behind its end. It
 * follows from the answer's tokens alone, so it is the same at every rank and unit, and whatever
 * steps the tokens came in.
 */
#ifndef SERVING_CONSTRAINT_CONSTRAINED_ANSWER_H
#define SERVING_CONSTRAINT_CONSTRAINED_ANSWER_H

#include "serving/constraint/constraint.h"

enum constrained_place {
    CONSTRAINED_FREE,  /* every token may come; the end, too, unless `behind` is still to come */
    CONSTRAINED_BOUND, /* what the form lets through */
    CONSTRAINED_ENDED, /* an end token has come */
    CONSTRAINED_STUCK  /* a token came that may not, or the matcher's memory is out */
};

struct constrained_answer {
    const struct constraint *constraint;
    struct matcher *matcher; /* of a grammar that was opened for constraint->form */
    const uint32_t *stops;   /* [stop_count] the tokens that end the answer; kept by reference */
    uint32_t stop_count;
    uint32_t token_count; /* pushed so far */
    uint8_t place;        /* enum constrained_place */
    bool waits_behind;    /* `behind` has not come yet */
    struct grammar_position at;
};

/* At the answer's start. */
void constrained_answer_begin(struct constrained_answer *answer,
                              const struct constraint *constraint, struct matcher *matcher,
                              const uint32_t *stops, uint32_t stop_count);

/* The answer's next token. */
void constrained_answer_push(struct constrained_answer *answer, uint32_t token);

/* What may come next: bit t % 64 of word t / 64 for each token, end tokens included where the
 * answer may end (the first of them alone, where it must). False: nothing is written, because every token may come. Where nothing may come,
 * the answer becomes CONSTRAINED_STUCK. `mask` has the trie's word_count words. */
bool constrained_answer_mask(struct constrained_answer *answer, uint64_t *mask);

/* The one token that may come; false: there is a choice, or it costs more to know. Cheap. */
bool constrained_answer_forced(struct constrained_answer *answer, uint32_t *token_out);

#endif
