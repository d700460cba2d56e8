/* SPDX-License-Identifier: Apache-2.0
 * A cache of token masks, keyed by states of leaves. While a text is inside a leaf (a string, a
 * key, a number, or the own bytes of a rule), the tokens that stay inside depend only on the leaf
 * and the state of its DFA. An entry has these tokens for one subtree of the vocabulary trie. It
 * also has the trie nodes at which tokens leave the leaf. The matcher continues with stacks from
 * there.
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
    /* strings, keys: after the quote; rules: after the first byte outside; numbers: before it */
    uint32_t node;
    uint32_t state; /* state of the DFA at the end */
};

struct leaf_cache_entry {
    struct leaf_key key;
    uint64_t serial; /* serial number of the last mask that it was added to */
    bool ends_here;  /* numbers: may end at key.node itself */
    uint32_t inside_count, end_count;
    const uint64_t *inside_mask; /* the tokens inside, as a mask or as a list (the shorter) */
    const uint32_t *inside;
    const struct leaf_end *ends; /* [end_count] */
};

struct leaf_cache;

/* Returns NULL if memory is out. */
struct leaf_cache *leaf_cache_create(struct arena *arena, const struct token_trie *trie);
/* Empties the cache if it is half full, which invalidates all entries. */
void leaf_cache_trim(struct leaf_cache *cache);
/* Finds the entry of a key, or computes it. Returns NULL if the cache is full. */
struct leaf_cache_entry *leaf_cache_find(struct leaf_cache *cache, const struct grammar *grammar,
                                         const struct leaf_key *key);
/* Adds the entry's inside tokens to the mask with this serial number, unless it has them. */
void leaf_cache_mark(struct leaf_cache *cache, const struct leaf_cache_entry *entry,
                     uint64_t serial, uint64_t *mask);
/* True if `inside`, the mask of unconstrained strings, was not added to this mask yet. The caller
 * then adds it. */
bool leaf_cache_is_new(struct leaf_cache *cache, const uint64_t *inside, uint64_t serial);
