/* SPDX-License-Identifier: Apache-2.0
 * A cache of token masks by the states of leaves. While a text is inside a leaf (a string, a key, a
 * number, or the own bytes of a rule), the tokens that stay inside depend only on the leaf and the
 * state of its DFA. An entry holds these tokens for one subtree of the vocabulary trie, and the trie
 * nodes at which tokens leave the leaf; from there, the matcher continues with stacks.
 *
 * The cache has a fixed size. leaf_cache_trim empties it when it is half full.
 */
#pragma once

#include "serving/grammar/matcher/grammar.h"
#include "serving/grammar/matcher/string_content.h"
#include "serving/grammar/matcher/token_trie.h"

struct leaf_key {
    uint32_t node;                   /* root of the subtree of the vocabulary trie */
    uint32_t leaf;                   /* a leaf, or a rule if is_rule */
    struct string_position position; /* position in the leaf at that node */
    bool is_number, is_rule;
    const uint64_t *open; /* keys: bit set of the states to follow; NULL: all live ones */
};

struct leaf_end { /* where a token leaves the leaf */
    uint32_t
        node; /* strings, keys: after the quote; rules: after the first byte outside; numbers: before it */
    uint32_t state; /* of the DFA at the end */
};

struct leaf_cache_entry {
    struct leaf_key key;
    uint64_t serial; /* the last mask that it was added to */
    bool ends_here;  /* numbers: may end at key.node itself */
    uint32_t inside_count, end_count;
    const uint64_t *inside_mask; /* the tokens inside, as a mask or as a list (the shorter) */
    const uint32_t *inside;
    const struct leaf_end *ends; /* [end_count] */
};

struct leaf_cache;

/* NULL: no memory. */
struct leaf_cache *leaf_cache_create(struct arena *arena, const struct token_trie *trie);
/* Empties the cache if it is half full. Invalidates all entries. */
void leaf_cache_trim(struct leaf_cache *cache);
/* The entry of a key, computed if necessary. NULL: the cache is full. */
struct leaf_cache_entry *leaf_cache_find(struct leaf_cache *cache, const struct grammar *grammar,
                                         const struct leaf_key *key);
/* Adds the tokens inside to the mask with this serial number, unless the entry was added before. */
void leaf_cache_mark(struct leaf_cache *cache, const struct leaf_cache_entry *entry,
                     uint64_t serial, uint64_t *mask);
/* Whether the mask `inside` of unconstrained strings was not added to this mask yet. */
bool leaf_cache_is_new(struct leaf_cache *cache, const uint64_t *inside, uint64_t serial);
