/* SPDX-License-Identifier: Apache-2.0
 * The tokens of an answer or its prompt, with their log probabilities and those of the likeliest
 * others. The tokens of every answer are kept, because another unit may have to continue it. A
 * token without log probabilities takes four bytes. The list grows in an arena in blocks, each a
 * quarter of all before it. Its last few tokens without log probabilities are kept in the list
 * itself: the block has left the CPU caches since the request's last token, and writing four bytes
 * there would wait for memory.
 */
#pragma once

#include "base/arena.h"
#include "contract/sampling.h"

struct token_block;

struct token_turn { /* from this token to the next turn */
    struct token_turn *next;
    uint32_t from;
    bool reasons;
};

#define TOKEN_LIST_RECENT 16 /* a cache line of them */

struct token_list {
    struct token_block *first, *last;
    char *at;      /* where the next token is stored, or the first recent one */
    uint32_t room; /* tokens that fit there, after the recent ones */
    uint32_t each; /* entries of a token, the same for all: itself, then the likeliest; 0: no log
                    * probabilities */
    uint32_t count;
    struct token_turn *first_turn, *last_turn; /* of reasoning and content; NULL: all is content */
    uint32_t text_offset;                      /* characters of the answer before the first token */
    bool is_prompt;                            /* echoed: the text includes special tokens */
    bool has_first; /* the first one is the prompt's first token, which has no log probability */
    uint32_t hidden_front, hidden_back; /* of a prompt: tokens at its start and end that the text
                                         * does not include */
    uint8_t recent_count;
    uint32_t
        recent[TOKEN_LIST_RECENT]; /* [recent_count] the last tokens, without log probabilities; the
                                    * block has reserved their places */
};

/* `entries`: [each], or one with only the token. False when the arena is out of memory. */
bool token_list_add(struct token_list *list, struct arena *arena,
                    const struct token_logprob *entries, uint32_t each);

/* Says whether the next tokens belong to the reasoning. False: as above. */
bool token_list_turn(struct token_list *list, struct arena *arena, bool reasons);

typedef void token_list_visitor(void *context, uint32_t index, const struct token_logprob *entries);

/* Visits tokens [from, to) in order. */
void token_list_visit(const struct token_list *list, uint32_t from, uint32_t to,
                      token_list_visitor *visit, void *context);

/* Limits the range to its next turn: moves *from to that turn's end. False: there is none before
 * `to`. */
bool token_list_next_turn(const struct token_list *list, uint32_t *from, uint32_t to,
                          bool *reasons);
