/* SPDX-License-Identifier: Apache-2.0
 * Parts of the trie of tokens walked by a leaf alone (a string, a key, a number, a rule's own bytes),
 * and a memory of what was found: the tokens that stay inside, and the places
 * where they leave. The memory has a fixed size; when much of it is used, all is forgotten.
 */
#ifndef SERVING_GRAMMAR_MATCHER_LEAF_WALK_H
#define SERVING_GRAMMAR_MATCHER_LEAF_WALK_H

#include "serving/grammar/matcher/grammar.h"
#include "serving/grammar/matcher/string_content.h"
#include "serving/grammar/matcher/token_trie.h"

struct leaf_key {
    uint32_t node;                /* the part below it */
    uint32_t leaf;                /* or the rule */
    struct string_position place; /* the state of the leaf there */
    bool is_number, is_rule;
    const uint64_t *open; /* of a key: the states that are looked at; NULL: all but the dead one */
};

struct leaf_end {
    uint32_t node;  /* of a rule: the byte that left it has been read */
    uint32_t state; /* in which the leaf ended, or the rule was left */
};

struct leaf_cache_entry {
    struct leaf_key key;
    uint64_t serial; /* of the mask that it was marked in last */
    bool ends_here;  /* a number: it may end at the part's own node */
    uint32_t inside_count, end_count;
    const uint64_t *inside_mask; /* one of the two, by what is shorter */
    const uint32_t *inside;
    const struct leaf_end
        *ends; /* strings, keys: the quote was read; numbers: another byte follows */
};

struct leaf_cache;

/* NULL: no memory. */
struct leaf_cache *leaf_cache_create(struct arena *arena, const struct token_trie *trie);
/* Forgets all if much is used; parts that were handed out are gone then. */
void leaf_cache_trim(struct leaf_cache *walks);
/* NULL: no room is left. */
struct leaf_cache_entry *leaf_cache_find(struct leaf_cache *walks, const struct grammar *grammar,
                                         const struct leaf_key *key);
/* Adds the tokens that stay inside, once for each mask. */
void leaf_cache_mark(struct leaf_cache *walks, const struct leaf_cache_entry *part, uint64_t serial,
                     uint64_t *mask);
/* Whether a mask of a string without a pattern was not yet added to this mask. */
bool leaf_cache_is_new(struct leaf_cache *walks, const uint64_t *inside, uint64_t serial);

#endif
