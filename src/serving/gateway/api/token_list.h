/* SPDX-License-Identifier: Apache-2.0
 * An answer's tokens, or its prompt's, with what is known of each: its log probability and those of
 * the likeliest others. Every answer's are kept, should it have to go on elsewhere; a token of which
 * nothing is known takes four bytes. Grows in an arena in blocks, each a quarter of all before it.
 * The last few of such tokens are kept in the list itself: to write each to its block, which has not
 * been touched since the request's last token, would mean to wait for memory for four bytes.
 */
#ifndef SERVING_GATEWAY_API_TOKEN_LIST_H
#define SERVING_GATEWAY_API_TOKEN_LIST_H

#include "base/arena.h"
#include "contract/sampling.h"

struct token_block;

struct token_turn { /* from this token on, up to the next turn */
    struct token_turn *next;
    uint32_t from;
    bool reasons;
};

#define TOKEN_LIST_RECENT 16 /* a cache line of them */

struct token_list {
    struct token_block *first, *last;
    char *at;      /* where the next token goes, or the first recent one */
    uint32_t room; /* tokens that fit there, behind the recent ones */
    uint32_t each; /* entries of a token, the same for all: itself, then the likeliest; 0: itself,
                    * of which nothing is known */
    uint32_t count;
    struct token_turn *first_turn, *last_turn; /* of reasoning and content; NULL: all is content */
    uint32_t text_offset;                      /* characters of the answer before the first */
    bool is_prompt;                            /* echoed: special tokens stand in the text, too */
    bool has_first; /* the prompt's first token, of which nothing is known, is the first */
    uint32_t hidden_front, hidden_back; /* of a prompt: tokens before the one, and from the other
                                         * on, do not stand in the text */
    uint8_t recent_count;
    uint32_t
        recent[TOKEN_LIST_RECENT]; /* [recent_count] the last tokens, of which nothing is known:
                                         * they have their places in the block */
};

/* `entries`: [each], or one of which only the token counts. False when the arena is out of memory. */
bool token_list_add(struct token_list *list, struct arena *arena,
                    const struct token_logprob *entries, uint32_t each);

/* The next tokens are of the reasoning, or are not. False: as above. */
bool token_list_turn(struct token_list *list, struct arena *arena, bool reasons);

typedef void token_list_visitor(void *context, uint32_t index, const struct token_logprob *entries);

/* Tokens [from, to), in order. */
void token_list_visit(const struct token_list *list, uint32_t from, uint32_t to,
                      token_list_visitor *visit, void *context);

/* Of these the next turn alone: moves *from to its end. False: there is none before `to`. */
bool token_list_next_turn(const struct token_list *list, uint32_t *from, uint32_t to,
                          bool *reasons);

#endif
