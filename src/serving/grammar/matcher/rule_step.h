/* SPDX-License-Identifier: Apache-2.0
 * Rules as they are read. A frame says in which state of which rule a text stands; the frame below it
 * says how the rule that called it goes on. Where a rule ends in its last state, or is called behind
 * which nothing comes, no frame is kept: lists that are written by recursion need no depth.
 */
#ifndef SERVING_GRAMMAR_MATCHER_RULE_STEP_H
#define SERVING_GRAMMAR_MATCHER_RULE_STEP_H

#include "serving/grammar/matcher/grammar.h"

/* STACK_NONE where the table is full. */
uint32_t rule_step_begin(const struct grammar *grammar, struct stack_table *table);
/* Adds the frames that the frame `number` of a rule becomes by `byte`. */
void rule_step(const struct grammar *grammar, struct stack_table *table, uint32_t number,
               uint8_t byte, struct thread_list *out);
/* The same of a frame like `number`, but in `state`, and without the rule's own steps by bytes. */
void rule_step_leave(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                     uint32_t state, uint8_t byte, struct thread_list *out);
bool rule_step_may_end(const struct grammar *grammar, const struct stack_table *table,
                       uint32_t number);
/* Nothing comes behind a frame but the end. */
bool rule_step_must_end(const struct grammar *grammar, const struct stack_table *table,
                        uint32_t number);

/* Whether a state is left by a byte: by a call, a value, or the rule's end. */
bool rule_step_leaves(const struct grammar *grammar, const struct grammar_rule *rule,
                      uint32_t state, uint8_t byte);

/* ---- tokens that stand for themselves ---- */

/* Adds what the frame becomes by the token `token`. */
void rule_step_token(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                     uint32_t token, struct thread_list *out);

/* The continuations that frames allow, collected one frame after the other. */
struct rule_outlook {
    uint64_t *mask; /* gets the tokens' bits; NULL: not needed */
    bool bytes;     /* ordinary tokens may come */
    uint32_t token; /* the only one that stands for itself; TOKEN_NONE: there is none */
    bool several;   /* there are others */
};
void rule_step_look(const struct grammar *grammar, struct stack_table *table, uint32_t number,
                    struct rule_outlook *outlook);

#endif
