/* SPDX-License-Identifier: Apache-2.0
 * The prefix cache, a tree that maps blocks of sequences to KV pages. A node is a page with one
 * whole block, identified by its key (serving/cache/block_key.h). Its parent has the preceding
 * block. The node of page p is node p, so the tree never allocates.
 *
 * A block is normally found by its true key. Generated text that returns in a prompt was computed
 * in another mode and hence has another key. It is found by its text, but only among the children
 * of the preceding node, so that a sequence read from the tree was computed as one sequence. The
 * keys of the blocks after it continue from the true key of the block that was found.
 *
 * A lease on a node implies leases on its ancestors, and prefix_tree_touch marks the node and all
 * its ancestors. Therefore a node is never without a lease while a child has one, and never used
 * less recently than a child. Eviction by age (serving/policy/evict_pages.h) thus removes leaves
 * first.
 */
#pragma once

#include "base/arena.h"
#include "contract/ids.h"
#include "serving/cache/block_key.h"

#define PREFIX_NONE UINT32_MAX

struct prefix_node { /* one cache line */
    struct block_key key;
    uint32_t parent; /* PREFIX_NONE: first block of a sequence */
    uint32_t depth;  /* blocks before it */
    uint32_t child_count;
    uint32_t next_same_text; /* the next child of the same parent with the same tokens */
    uint64_t last_use;
    uint8_t prompt_tokens; /* leading tokens of the mode PROMPT; the others are GENERATED */
    bool present;
};

/* A hash index of nodes. The tag in a slot rules out most other nodes without reading them, because
 * reading a node costs a cache miss. */
struct prefix_index {
    struct prefix_slot {
        uint32_t tag;  /* hash of the key; the slot is at or after it, modulo slot_count */
        uint32_t node; /* PREFIX_NONE: empty */
    } * slots;
    uint32_t slot_count; /* a power of two, at least twice the nodes */
    uint32_t used_count;
};

struct prefix_tree {
    uint32_t page_count;
    /* pages from here on have never held a block; their nodes are not initialized */
    uint32_t page_end;
    uint32_t node_count;
    bool texts;                  /* blocks can also be found by text */
    uint64_t uses;               /* clock of last_use */
    struct prefix_node *nodes;   /* [page_count] */
    struct block_key *text_keys; /* [page_count] mode-free key of each node; NULL without texts */
    struct prefix_index by_key;  /* index by true key */
    /* index by mode-free key and parent: the first such node, which links the others; unused
     * without texts */
    struct prefix_index by_text;
};

/* The keys of a block, which identify it and all blocks before it. */
struct prefix_name {
    struct block_key key;
    struct block_key text_key; /* only in a tree with texts */
};

/* Arena bytes that prefix_tree_open needs. */
size_t prefix_tree_bytes(uint32_t page_count, bool texts);

/* `texts` enables prefix_tree_find_text. It costs memory, and a hash for each block. */
enum status prefix_tree_open(struct prefix_tree *tree, struct arena *arena, uint32_t page_count,
                             bool texts) MUST_USE;

/* The name of the empty sequence, which is the root of all sequences of this identity. */
struct prefix_name prefix_tree_root(const struct prefix_tree *tree,
                                    const struct block_key_identity *identity);

/* The true key of the block with these tokens after `previous`, the key of a block or of the root.
 * The first prompt_tokens are from the prompt. */
struct block_key prefix_tree_block_key(const struct block_key *previous,
                                       const uint32_t tokens[KV_BLOCK_TOKENS],
                                       uint32_t prompt_tokens);

/* The number of leading blocks of a sequence that are in the tree. keys[count]: their true keys, in
 * order. */
uint32_t prefix_tree_count(const struct prefix_tree *tree, const struct block_key *keys,
                           uint32_t count);

/* The name of the block with these tokens after the block `before`. The first prompt_tokens are
 * from the prompt. Prefetches the slot of the block, so a caller should compute the names of
 * several blocks before it looks them up. `known`: the true key of the block, if it was computed
 * before; NULL: compute it. */
struct prefix_name prefix_tree_next(const struct prefix_tree *tree,
                                    const struct prefix_name *before,
                                    const uint32_t tokens[KV_BLOCK_TOKENS], uint32_t prompt_tokens,
                                    const struct block_key *known);

/* The node with this true key; PREFIX_NONE if there is none. */
uint32_t prefix_tree_find(const struct prefix_tree *tree, const struct prefix_name *name);

/* Finds a child of `parent` (PREFIX_NONE: a first block) with the tokens of the name, in any modes.
 * PREFIX_NONE if there is none. The tree must have texts. */
uint32_t prefix_tree_find_text(const struct prefix_tree *tree, const struct prefix_name *name,
                               uint32_t parent);

struct prefix_name prefix_tree_name(const struct prefix_tree *tree, uint32_t node);

/* Adds `page`, which must not be a node yet, as the block of this name after `parent` (PREFIX_NONE:
 * a first block). Returns the node of the block. If the tree already has the block, it does not
 * change, and the existing node is returned. */
uint32_t prefix_tree_add(struct prefix_tree *tree, struct page_id page, uint32_t parent,
                         const struct prefix_name *name, uint32_t prompt_tokens);

/* True if the page holds a block of the tree. */
static inline bool prefix_tree_has(const struct prefix_tree *tree, uint32_t page) {
    return page < tree->page_end && tree->nodes[page].present;
}

/* Removes a node without children. */
void prefix_tree_remove(struct prefix_tree *tree, struct page_id page);

/* Marks a node and its ancestors as used now. */
void prefix_tree_touch(struct prefix_tree *tree, uint32_t node);

/* Recounts all redundant state and checks it. Slow. */
void prefix_tree_audit(const struct prefix_tree *tree);
