/* SPDX-License-Identifier: Apache-2.0
 * A vocabulary as a trie: its tokens by their bytes, so that what starts alike is looked at once.
 * Nodes lie in the order of a walk that visits a node before its children, which makes a walk one
 * pass over memory, and the part below a node one run.
 *
 * It also has the facts of every string without a pattern: which tokens stay inside it and how
 * many characters they need, and which hold its closing quote. Added and empty tokens are not in
 * the trie. It never changes once built, so threads may share it.
 */
#ifndef SERVING_GRAMMAR_MATCHER_TOKEN_TRIE_H
#define SERVING_GRAMMAR_MATCHER_TOKEN_TRIE_H

#include "serving/text/tokenizer.h"

#define TOKEN_NONE UINT32_MAX
#define TOKEN_TRIE_BYTES_MAX 254 /* of a token; longer ones are left out, and never let through */
#define TOKEN_TRIE_WITHIN 32

struct trie_node {
    uint32_t size;  /* nodes of the part below, this one included */
    uint32_t token; /* that ends here; TOKEN_NONE: none does */
    uint16_t depth; /* bytes from the root, which is node 0 */
    uint8_t byte;   /* that leads here */
};

struct trie_end { /* a string's closing quote has just been read */
    uint32_t node;
    uint32_t characters; /* of the string, before the quote */
};

struct token_trie {
    uint32_t token_count, word_count; /* of a mask: 64 tokens a word */
    uint32_t node_count;
    const struct trie_node *nodes;
    const uint32_t *same_bytes; /* [token_count] another token with the same bytes, or none */
    const struct bytes *tokens; /* [token_count]; empty: not in the trie */
    const uint8_t *needs;       /* [token_count] characters (a part counts as one) of a token that
                                     * stays inside a string; UINT8_MAX: it does not */
    const uint64_t *within[TOKEN_TRIE_WITHIN + 1]; /* masks: stays inside with so many characters */
    const uint64_t *inside;                        /* stays inside, whatever it needs */
    const uint32_t *long_tokens; /* that stay inside and need more than TOKEN_TRIE_WITHIN */
    uint32_t long_count;
    const uint32_t *inside_tokens; /* the same in the order of their nodes */
    const uint32_t *inside_before; /* [node_count + 1] count of those with nodes before a node */
    const struct trie_end *ends;   /* in the order of their nodes */
    uint32_t end_count;
    uint32_t leaf_end_max; /* nodes at which strings and numbers can end */
};

/* tokens[i].count 0: i is no token that text may have. The texts are kept by reference. */
enum status token_trie_build(struct arena *arena, struct arena *scratch, const struct bytes *tokens,
                             uint32_t token_count, const struct token_trie **out) MUST_USE;
/* Makes the trie of a tokenizer, with as many rows as the model has. */
enum status token_trie_of_tokenizer(struct arena *arena, struct arena *scratch,
                                    const struct tokenizer *tokenizer, uint32_t row_count,
                                    const struct token_trie **out) MUST_USE;

/* Whether some token continues after a number that ends at a node. */
bool token_trie_leaves_number(const struct token_trie *trie, uint32_t node);

/* Sets the bits of the tokens that end at a node. */
static inline void token_trie_mark(const struct token_trie *trie, uint32_t node, uint64_t *mask) {
    for (uint32_t token = trie->nodes[node].token; token != TOKEN_NONE;
         token = trie->same_bytes[token])
        mask[token / 64] |= UINT64_C(1) << token % 64;
}

#endif
