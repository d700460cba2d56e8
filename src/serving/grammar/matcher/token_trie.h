/* SPDX-License-Identifier: Apache-2.0
 * The vocabulary as a trie of the tokens' bytes, so that common prefixes are matched only once.
 * Nodes are in preorder. Traversing the trie is one pass over memory, and a subtree is a contiguous
 * range.
 *
 * The trie also has precomputed facts for strings without a pattern: which tokens stay inside, how
 * many characters they need, and which contain the closing quote. Added and empty tokens are not in
 * the trie. It is immutable once built, so threads may share it.
 */
#pragma once

#include "serving/text/tokenizer.h"

#define TOKEN_NONE UINT32_MAX
#define TOKEN_TRIE_BYTES_MAX 254 /* longer tokens are left out and never allowed */
#define TOKEN_TRIE_WITHIN 32

struct trie_node {
    uint32_t size;  /* nodes of the subtree, including this one */
    uint32_t token; /* token that ends here, or TOKEN_NONE */
    uint16_t depth; /* bytes from the root (node 0) */
    uint8_t byte;   /* the last byte */
};

struct trie_end { /* a node right after the closing quote of a string */
    uint32_t node;
    uint32_t characters; /* characters before the quote */
};

struct token_trie {
    uint32_t token_count, word_count; /* word_count: 64-bit words of a mask over the tokens */
    uint32_t node_count;
    const struct trie_node *nodes;
    const uint32_t *same_bytes; /* [token_count] next token with the same bytes, or TOKEN_NONE */
    const struct bytes *tokens; /* [token_count]; empty: not in the trie */
    const uint8_t *needs;       /* [token_count] characters, partial ones included, of a token that
                                     * stays inside a string; UINT8_MAX: it does not */
    /* [n]: mask of tokens inside with at most n characters */
    const uint64_t *within[TOKEN_TRIE_WITHIN + 1];
    const uint64_t *inside;      /* mask of tokens that stay inside */
    const uint32_t *long_tokens; /* tokens inside with more than TOKEN_TRIE_WITHIN characters */
    uint32_t long_count;
    const uint32_t *inside_tokens; /* tokens inside, in the order of their nodes */
    const uint32_t *inside_before; /* [node_count + 1] number of inside_tokens before a node */
    const struct trie_end *ends;   /* [end_count] in the order of their nodes */
    uint32_t end_count;
    uint32_t leaf_end_max; /* number of nodes at which strings and numbers can end */
};

/* Builds the trie. tokens[i].count 0 excludes token i. The trie points to the tokens' bytes. */
enum status token_trie_build(struct arena *arena, struct arena *scratch, const struct bytes *tokens,
                             uint32_t token_count, const struct token_trie **out) MUST_USE;
/* Builds the trie of a tokenizer for a model with row_count logits. */
enum status token_trie_of_tokenizer(struct arena *arena, struct arena *scratch,
                                    const struct tokenizer *tokenizer, uint32_t row_count,
                                    const struct token_trie **out) MUST_USE;

/* True if some token continues after the end of a number at a node. */
bool token_trie_leaves_number(const struct token_trie *trie, uint32_t node);

/* Sets the bits of the tokens that end at a node. */
static inline void token_trie_mark(const struct token_trie *trie, uint32_t node, uint64_t *mask) {
    for (uint32_t token = trie->nodes[node].token; token != TOKEN_NONE;
         token = trie->same_bytes[token])
        mask[token / 64] |= UINT64_C(1) << token % 64;
}
