/* SPDX-License-Identifier: Apache-2.0
 * Objects as they are read: which keys may come, whether the brace may close. An object's frame
 * keeps the set of properties that stood and the set of those that may come; both follow from the
 * keys so far. A property stands once. Other keys may come again, but count once towards the least
 * number of keys.
 */
#ifndef SERVING_GRAMMAR_MATCHER_OBJECT_STEP_H
#define SERVING_GRAMMAR_MATCHER_OBJECT_STEP_H

#include "serving/grammar/matcher/grammar.h"

/* Behind the opening brace. */
uint32_t object_step_begin(const struct grammar *grammar, struct stack_table *table,
                           uint32_t object, uint32_t below);
/* A byte that is no blank, where no value comes. */
void object_step(const struct grammar *grammar, struct stack_table *table,
                 const struct stack_frame *frame, uint8_t byte, struct thread_list *out);
/* Makes the filter of the next key in the object of this frame. */
void object_step_filter(const struct grammar *grammar, const struct stack_frame *frame,
                        struct key_filter *out);
/* Whether the text that led a key to `state` is a key of no property. */
bool object_step_key_is_open(const struct grammar *grammar, const struct stack_frame *object_frame,
                             uint32_t state);
/* The shape of the value that comes, and the frame that lies below it. */
uint32_t object_step_value(const struct grammar *grammar, const struct stack_frame *frame);
uint32_t object_step_behind_value(struct stack_table *table, const struct stack_frame *frame);

#endif
