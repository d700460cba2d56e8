/* SPDX-License-Identifier: Apache-2.0
 * The matcher: which tokens may come next. It follows a text byte by byte through a grammar, in
 * all readings at once, and computes a mask over a tokenizer's tokens from its position. A byte is
 * allowed only if the text can still be completed. The position of a text follows from its bytes
 * alone: another matcher that gets the same tokens is at the same position.
 *
 * A position is a small value; to go back to an earlier one (a draft that was wrong) is to use it
 * again. Positions live in the matcher's memory, which is bounded: matcher_compact forgets all but
 * one.
 */
#ifndef SERVING_GRAMMAR_MATCHER_MATCHER_H
#define SERVING_GRAMMAR_MATCHER_MATCHER_H

#include "serving/grammar/matcher/token_trie.h"

struct matcher;
struct grammar;
struct grammar_program;

/* A grammar: a program (form.h) together with what is precomputed for a vocabulary. Program and
 * trie are kept by reference. Immutable but for caches of bounded size (about 3 MiB), which make
 * it one thread's at a time. STATUS_NO_MEMORY. */
enum status matcher_grammar_open(struct arena *arena, const struct grammar_program *program,
                                 const struct token_trie *trie, struct grammar **out,
                                 struct error *error) MUST_USE;

/* About 2 MiB. */
enum status matcher_open(struct arena *arena, struct grammar *grammar,
                         struct matcher **out) MUST_USE;
/* Its grammar's. */
const struct token_trie *matcher_trie(const struct matcher *matcher);

/* `number`s are only the matcher's. 0: the text broke the grammar, or outgrew the matcher. */
struct grammar_position {
    uint32_t number;
};

struct grammar_position matcher_begin(struct matcher *matcher);
struct grammar_position matcher_push(struct matcher *matcher, struct grammar_position from,
                                     struct bytes bytes);
/* Like matcher_push for a token's bytes. An added token is matched by its number. */
struct grammar_position matcher_push_token(struct matcher *matcher, struct grammar_position from,
                                           uint32_t token);
bool matcher_may_end(const struct matcher *matcher, struct grammar_position at);
/* Nothing but the end may come. */
bool matcher_must_end(const struct matcher *matcher, struct grammar_position at);

/* Bit t % 64 of word t / 64 for each token that may come next. End tokens are not in it: see
 * matcher_may_end. */
void matcher_mask(struct matcher *matcher, struct grammar_position at, uint64_t *mask);
/* The same from its definition, token by token, very slowly: tests and `./dev schemas` compare
 * both. */
void matcher_mask_slowly(struct matcher *matcher, struct grammar_position at, uint64_t *mask);

/* The only token allowed next, if the end is not allowed. False: there is a choice, or it is not an
 * added token; a number would be expensive to find then. Cheap. */
bool matcher_forced_token(struct matcher *matcher, struct grammar_position at, uint32_t *token_out);

/* Keeps `at` alone (its number may change), and gives the memory of the others back, if not much is
 * left. False: it takes more than the matcher has. */
bool matcher_compact(struct matcher *matcher, struct grammar_position *at) MUST_USE;

#endif
