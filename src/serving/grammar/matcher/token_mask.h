/* SPDX-License-Identifier: Apache-2.0
 * Masks: the tokens that some stack lets through, found by walking the trie of tokens. Where a text
 * is inside a string, a key or a number, what stays inside it depends on nothing but the leaf's
 * state: such parts of the trie are walked once by the leaf's automaton alone, and remembered. What
 * leaves the leaf goes on from where it does so.
 */
#ifndef SERVING_GRAMMAR_MATCHER_TOKEN_MASK_H
#define SERVING_GRAMMAR_MATCHER_TOKEN_MASK_H

#include "serving/grammar/matcher/grammar.h"

/* NULL: no memory. */
struct mask_memory *token_mask_memory_create(struct arena *arena, const struct token_trie *trie);
/* Whole masks, by what they are of. */
bool token_mask_memory_find(struct mask_memory *memory, uint64_t content, uint64_t *mask);
void token_mask_memory_keep(struct mask_memory *memory, uint64_t content, const uint64_t *mask);

/* Adds to `mask` what the threads let through. Frames that it puts are left to the caller. */
void token_mask_fill(const struct grammar *grammar, struct stack_table *table,
                     const struct thread_list *threads, uint64_t *mask);

#endif
