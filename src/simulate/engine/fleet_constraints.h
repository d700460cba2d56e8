/* SPDX-License-Identifier: Apache-2.0
 * The constraints that clients of a simulated fleet use for their answers. They are a few grammars
 * over the byte tokens of fleet_token_oracle, compiled once for all runs by the product's own
 * compiler. During a run the module lends grammar masks to engines (struct constrained_lender) and
 * sometimes delays them. It also computes the expected answer under a constraint, and checks
 * without a grammar whether a text satisfies it.
 */
#pragma once

#include "serving/constraint/constrained_rows.h"
#include "simulate/kernel/fleet_dice.h"

enum {
    FLEET_CONSTRAINTS = 4,
    FLEET_MASK_WORDS = 16, /* words of a mask for FLEET_VOCAB tokens */
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
    void *own_memory; /* of `own` */
    struct constrained_answer own;
    /* State of the current run: */
    struct fleet_dice dice;
    uint32_t late_of; /* one mask in `late_of` is late; 0: none */
    bool looks_ahead; /* engines force every token that is the only allowed one */
    uint32_t loan_count;
    uint64_t begun, late, forced; /* answers, including repeats; late masks; forced tokens */
};

size_t fleet_constraints_bytes(void);

/* Returns NULL if the arena is out of memory. */
struct fleet_constraints *fleet_constraints_open(struct arena *arena);

/* Begins a run. There are no loans yet. */
void fleet_constraints_begin(struct fleet_constraints *constraints, uint64_t seed);

struct constrained_lender fleet_constraints_lender(struct fleet_constraints *constraints);

/* Draws whether the current mask is late. */
bool fleet_constraints_is_late(struct fleet_constraints *constraints);

/* Draws the number of step results before one reports the constraint as ready. */
uint32_t fleet_constraints_wait(struct fleet_constraints *constraints);

/* The name of the request field with the constraint, and its value as JSON. */
const char *fleet_constraints_field(uint32_t which);
const char *fleet_constraints_value(uint32_t which);

/* The state of an answer at its start, valid until the next call. */
struct constrained_answer *fleet_constraints_follow(struct fleet_constraints *constraints,
                                                    uint32_t which);

/* True if the tokens of a complete answer, without the stop token, satisfy the constraint. Clears
 * `scratch`. */
bool fleet_constraints_fulfilled(uint32_t which, const uint32_t *tokens, uint32_t count,
                                 struct arena *scratch);
