/* SPDX-License-Identifier: Apache-2.0
 * The tokens of an answer or its prompt, with their log probabilities and those of the likeliest
 * others. The tokens of every answer are kept, because another unit may have to continue it. A
 * token without log probabilities takes four bytes. The list grows in an arena in blocks, each a
 * quarter of all before it. The last few tokens without log probabilities are kept in the list
 * itself. Between two tokens of a request the block leaves the CPU caches, and writing four bytes
 * there would wait for memory.
 */
#pragma once

#include "base/arena.h"
#include "contract/sampling.h"

struct token_block;

struct token_turn { /* a run of reasoning or content, from a token to the next turn */
    struct token_turn *next;
    uint32_t from;
    bool reasons;
};

#define TOKEN_LIST_RECENT 16 /* one cache line */

struct token_list {
    struct token_block *first, *last;
    char *at;      /* where the next token is stored, or the first recent one */
    uint32_t room; /* tokens that fit there, in addition to the recent ones */
    uint32_t each; /* entries per token, the same for all: itself, then the likeliest; 0: no log
                    * probabilities */
    uint32_t count;
    struct token_turn *first_turn, *last_turn; /* turns; NULL: all is content */
    uint32_t text_offset;                      /* characters of the answer before the first token */
    bool is_prompt;                            /* echoed; its text includes special tokens */
    bool has_first; /* it begins with the prompt's first token, which has no log probability */
    uint32_t hidden_front, hidden_back; /* prompts: tokens at the start and end that the text
                                         * does not include */
    uint8_t recent_count;
    uint32_t
        recent[TOKEN_LIST_RECENT]; /* [recent_count] last tokens, without log probabilities; the
                                    * block has reserved their places */
};

/* Adds a token. `entries`: [each], or one entry with only the token if `each` is 0. False: out of
 * memory. */
bool token_list_add(struct token_list *list, struct arena *arena,
                    const struct token_logprob *entries, uint32_t each);

/* Says whether the next tokens belong to the reasoning. False: out of memory. */
bool token_list_turn(struct token_list *list, struct arena *arena, bool reasons);

typedef void token_list_visitor(void *context, uint32_t index, const struct token_logprob *entries);

/* Visits tokens [from, to) in order. */
void token_list_visit(const struct token_list *list, uint32_t from, uint32_t to,
                      token_list_visitor *visit, void *context);

/* Finds the next turn of the range and moves *from to that turn's end. False: there is none before
 * `to`. */
bool token_list_next_turn(const struct token_list *list, uint32_t *from, uint32_t to,
                          bool *reasons);
