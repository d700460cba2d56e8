/* SPDX-License-Identifier: Apache-2.0
 * The matcher decides which tokens may come next. It parses the text byte by byte with pushdown
 * stacks, follows all parses of an ambiguous grammar in parallel, and computes a mask over the
 * vocabulary. A byte is allowed only if the text can still be completed. The position depends only
 * on the bytes read: another matcher that reads the same tokens gets to the same position.
 *
 * A position is a small value. To return to an earlier one, for instance after a rejected draft, use
 * that value again. Positions refer to the matcher's memory, which is bounded: matcher_compact frees
 * all but one.
 */
#pragma once

#include "serving/grammar/matcher/token_trie.h"

struct matcher;
struct grammar;
struct grammar_program;

/* Prepares a program (form.h) for a vocabulary. The grammar refers to both. It contains caches of
 * bounded size (about 3 MiB), so only one thread at a time may use it. STATUS_NO_MEMORY. */
enum status matcher_grammar_open(struct arena *arena, const struct grammar_program *program,
                                 const struct token_trie *trie, struct grammar **out,
                                 struct error *error) MUST_USE;

/* Takes about 2 MiB. STATUS_NO_MEMORY. */
enum status matcher_open(struct arena *arena, struct grammar *grammar,
                         struct matcher **out) MUST_USE;
/* The trie of the matcher's grammar. */
const struct token_trie *matcher_trie(const struct matcher *matcher);

/* Valid for one matcher. number 0: the text violates the grammar, or the memory is full. */
struct grammar_position {
    uint32_t number;
};

struct grammar_position matcher_begin(struct matcher *matcher);
struct grammar_position matcher_push(struct matcher *matcher, struct grammar_position from,
                                     struct bytes bytes);
/* Reads a token: an ordinary one by its bytes, an added one by its number. */
struct grammar_position matcher_push_token(struct matcher *matcher, struct grammar_position from,
                                           uint32_t token);
bool matcher_may_end(const struct matcher *matcher, struct grammar_position at);
/* Whether only the end may come. */
bool matcher_must_end(const struct matcher *matcher, struct grammar_position at);

/* Sets bit t % 64 of word t / 64 for each token t that may come next. End tokens are not included,
 * see matcher_may_end. */
void matcher_mask(struct matcher *matcher, struct grammar_position at, uint64_t *mask);
/* The same by trying each token, which is very slow: the reference for tests and `./dev schemas`. */
void matcher_mask_slowly(struct matcher *matcher, struct grammar_position at, uint64_t *mask);

/* Finds the only token that may come next, if it is an added token and the end is not allowed.
 * False: there is a choice, or only an ordinary token may come. Cheap. */
bool matcher_forced_token(struct matcher *matcher, struct grammar_position at, uint32_t *token_out);

/* If memory runs low, frees all positions except `at`, whose number may change. False: `at` alone
 * needs more than half of the memory. */
bool matcher_compact(struct matcher *matcher, struct grammar_position *at) MUST_USE;
