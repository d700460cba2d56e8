/* SPDX-License-Identifier: Apache-2.0
 * The prefix cache: which KV page holds which block of which sequence. A node is a page with one
 * whole block, named by its key (serving/cache/block_key.h); its parent holds the block before it.
 * The node of page p is node p, so the tree needs no memory of its own to grow and no number of its
 * own.
 *
 * A block is found by its true key. Text that was generated and comes back in a prompt has other
 * forms, hence another key; it is found by its text, but only among the children of the node that
 * stands before it, so that a sequence read from the tree was computed as one sequence. What
 * follows then chains from the found block's true key.
 *
 * A parent is read wherever its children are: whoever leases a node leases its ancestors, and
 * prefix_tree_touch goes from the node up to its root. So no node is ever unleased or older while a
 * child of it is leased or younger, and removing by age (serving/policy/evict_pages.h) takes leaves
 * first.
 */
#ifndef SERVING_CACHE_PREFIX_TREE_H
#define SERVING_CACHE_PREFIX_TREE_H

#include "base/map.h"
#include "contract/ids.h"
#include "serving/cache/block_key.h"

#define PREFIX_NONE UINT32_MAX

struct prefix_node {
    struct block_key key, text_key; /* true and form-free */
    uint32_t parent;                /* PREFIX_NONE: its sequence's first block */
    uint32_t depth;                 /* blocks before it */
    uint32_t child_count;
    uint32_t next_same_text; /* another child of the same parent with the same tokens */
    uint64_t last_use;
    uint8_t prompt_tokens; /* the first so many of its tokens have the form PROMPT, the others
                            * GENERATED */
    bool present;
};

struct prefix_tree {
    uint32_t page_count;
    uint32_t node_count;
    uint64_t uses;             /* the clock of last_use */
    struct prefix_node *nodes; /* [page_count] */
    struct map by_key;         /* true key -> node */
    struct map by_text;        /* form-free key, parent -> the first node; the others hang on it */
};

/* A place in a sequence: behind `node`, with the keys so far. */
struct prefix_place {
    struct block_key key, text_key;
    uint32_t node; /* PREFIX_NONE: at the start */
};

/* Arena bytes that suffice for prefix_tree_open. */
size_t prefix_tree_bytes(uint32_t page_count);

enum status prefix_tree_open(struct prefix_tree *tree, struct arena *arena,
                             uint32_t page_count) MUST_USE;

/* The start of every sequence of this identity. */
struct prefix_place prefix_place_root(const struct block_key_identity *identity);

/* The true key of the block of these tokens behind the block `previous`, or behind the root with
 * that key; the first prompt_tokens of them came with the prompt. */
struct block_key prefix_block_key(const struct block_key *previous,
                                  const uint32_t tokens[KV_BLOCK_TOKENS], uint32_t prompt_tokens);

/* How many leading blocks of a sequence are there: keys[count] are their true keys, in order. */
uint32_t prefix_tree_count(const struct prefix_tree *tree, const struct block_key *keys,
                           uint32_t count);

/* The node behind `place` of this block, whose first prompt_tokens tokens came with the prompt and
 * whose others were generated: found by its true key. PREFIX_NONE if there is none. */
uint32_t prefix_tree_find(const struct prefix_tree *tree, const struct prefix_place *place,
                          const uint32_t tokens[KV_BLOCK_TOKENS], uint32_t prompt_tokens);

/* A child of the place's node with these tokens, whatever their forms; PREFIX_NONE if there is
 * none. */
uint32_t prefix_tree_find_text(const struct prefix_tree *tree, const struct prefix_place *place,
                               const uint32_t tokens[KV_BLOCK_TOKENS]);

/* The place behind a node. */
struct prefix_place prefix_tree_place(const struct prefix_tree *tree, uint32_t node);

/* `page` now holds this block, which stands behind `place` and must not be in the tree yet. */
void prefix_tree_add(struct prefix_tree *tree, struct page_id page,
                     const struct prefix_place *place, const uint32_t tokens[KV_BLOCK_TOKENS],
                     uint32_t prompt_tokens);

/* Forgets a node without children. */
void prefix_tree_remove(struct prefix_tree *tree, struct page_id page);

/* A node and its ancestors are used now. */
void prefix_tree_touch(struct prefix_tree *tree, uint32_t node);

/* Recounts everything that is kept twice; check()s that it agrees. Slow. */
void prefix_tree_audit(const struct prefix_tree *tree);

#endif
