/* SPDX-License-Identifier: Apache-2.0
 * What clients of simulated fleets bind their answers to: a few constraints over the bytes of
 * fleet_tongue's vocabulary, compiled once for all lives, by the product's own compiler. In a life
 * it is who lends them to the engines (struct constrained_lender), which it makes wait at times; and
 * outside of the engines it follows an answer by itself, so that the right one can be told, and judges whether a
 * text is what was asked for, without any grammar.
 */
#ifndef SIMULATE_FLEET_CONSTRAINTS_H
#define SIMULATE_FLEET_CONSTRAINTS_H

#include "serving/constraint/constrained_rows.h"
#include "simulate/fleet_dice.h"

enum {
    FLEET_CONSTRAINTS = 4,
    FLEET_MASK_WORDS = 16, /* of FLEET_VOCAB tokens */
    FLEET_LOANS_MAX = 4 * 3 * 12
};

struct fleet_loan;

struct fleet_constraints {
    const struct token_trie *trie;
    struct fleet_compiled {
        const struct constraint *constraint;
        struct grammar *grammar;
    } compiled[FLEET_CONSTRAINTS];
    struct fleet_loan *loans; /* [FLEET_LOANS_MAX] */
    struct fleet_loan *free;
    void *own_memory; /* of the answer that is followed by itself */
    struct constrained_answer own;
    /* of this life: */
    struct fleet_dice dice;
    uint32_t late_of; /* one mask in so many is late; 0: none */
    bool looks_ahead; /* its engines force all that can be */
    uint32_t loan_count;
    uint64_t begun, late, forced; /* answers, perhaps again; masks; tokens */
};

size_t fleet_constraints_bytes(void);

/* NULL when the arena is out of memory. */
struct fleet_constraints *fleet_constraints_open(struct arena *arena);

/* A life begins: nobody has a loan. */
void fleet_constraints_begin(struct fleet_constraints *constraints, uint64_t seed);

struct constrained_lender fleet_constraints_lender(struct fleet_constraints *constraints);

/* By the dice: the mask that is wanted now is not there. */
bool fleet_constraints_is_late(struct fleet_constraints *constraints);

/* By the dice: how many results do not say yet that what is waited for is ready. */
uint32_t fleet_constraints_wait(struct fleet_constraints *constraints);

/* The field of a request's body that asks for one: its name, and its value as JSON. */
const char *fleet_constraints_field(uint32_t which);
const char *fleet_constraints_value(uint32_t which);

/* An answer from its start, until the next call. */
struct constrained_answer *fleet_constraints_follow(struct fleet_constraints *constraints,
                                                    uint32_t which);

/* Are the tokens of a whole answer, but for the stop token, what was asked for? `scratch` is given
 * back. */
bool fleet_constraints_fulfilled(uint32_t which, const uint32_t *tokens, uint32_t count,
                                 struct arena *scratch);

#endif
