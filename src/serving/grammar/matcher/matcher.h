/* SPDX-License-Identifier: Apache-2.0
 * The matcher decides which tokens may come next. It parses the text byte by byte with pushdown
 * stacks, follows all parses of an ambiguous grammar in parallel, and computes a mask over the
 * vocabulary. A byte is allowed only if the text can still be completed. The position depends only
 * on the bytes and added tokens read. Other matchers that read the same come to the same position.
 *
 * A position is a small value. To return to an earlier one, for instance after a rejected
 * speculative draft, use that value again. Positions refer to the matcher's memory, which is
 * bounded. matcher_compact frees all positions but one.
 */
#pragma once

#include "serving/grammar/matcher/token_trie.h"

struct matcher;
struct grammar;
struct grammar_program;

/* Prepares a program (form.h) for a vocabulary. The grammar refers to both. It contains caches of
 * bounded size (about 3 MiB), so only one thread at a time may use it. Returns STATUS_NO_MEMORY if
 * the arena is full. */
enum status matcher_grammar_open(struct arena *arena, const struct grammar_program *program,
                                 const struct token_trie *trie, struct grammar **out,
                                 struct error *error) MUST_USE;

/* Opens a matcher, which takes about 2 MiB. Returns STATUS_NO_MEMORY if the arena is full. */
enum status matcher_open(struct arena *arena, struct grammar *grammar,
                         struct matcher **out) MUST_USE;
/* The trie of the matcher's grammar. */
const struct token_trie *matcher_trie(const struct matcher *matcher);

/* Valid for one matcher. number 0: the text violates the grammar, or the memory is full. */
struct grammar_position {
    uint32_t number;
};

/* The position at the start of a text. */
struct grammar_position matcher_begin(struct matcher *matcher);
/* The position after reading bytes at `from`. */
struct grammar_position matcher_push(struct matcher *matcher, struct grammar_position from,
                                     struct bytes bytes);
/* The same for a token. An ordinary token is read by its bytes, an added one by its id. */
struct grammar_position matcher_push_token(struct matcher *matcher, struct grammar_position from,
                                           uint32_t token);
bool matcher_may_end(const struct matcher *matcher, struct grammar_position at);
/* True if only the end may come. */
bool matcher_must_end(const struct matcher *matcher, struct grammar_position at);

/* Computes the grammar mask: bit t % 64 of word t / 64 is set if token t may come next. End tokens
 * are not included, see matcher_may_end. */
void matcher_mask(struct matcher *matcher, struct grammar_position at, uint64_t *mask);
/* The same, very slowly, by trying each token. The reference for tests and `./dev schemas`. */
void matcher_mask_slowly(struct matcher *matcher, struct grammar_position at, uint64_t *mask);

/* Finds the only token that may come next, if it is an added token and the end is not allowed.
 * Returns false if there is a choice, or if only an ordinary token may come. The call is cheap. */
bool matcher_forced_token(struct matcher *matcher, struct grammar_position at, uint32_t *token_out);

/* If memory runs low, frees all positions except `at` and may change its number. Returns false if
 * `at` alone needs more than half of the memory, or if its number is 0. */
bool matcher_compact(struct matcher *matcher, struct grammar_position *at) MUST_USE;
