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

#include "base/arena.h"
#include "contract/ids.h"
#include "serving/cache/block_key.h"

#define PREFIX_NONE UINT32_MAX

struct prefix_node { /* a cache line */
    struct block_key key;
    uint32_t parent; /* PREFIX_NONE: its sequence's first block */
    uint32_t depth;  /* blocks before it */
    uint32_t child_count;
    uint32_t next_same_text; /* another child of the same parent with the same tokens */
    uint64_t last_use;
    uint8_t prompt_tokens; /* the first so many of its tokens have the form PROMPT, the others
                            * GENERATED */
    bool present;
};

/* Nodes by a number that is drawn from what they are found by. A slot is small and tells most others
 * apart by itself, since each look at a node is one at memory that nobody has looked at for long. */
struct prefix_index {
    struct prefix_slot {
        uint32_t tag;  /* that number: where the slot would like to stand, modulo slot_count */
        uint32_t node; /* PREFIX_NONE: empty */
    } * slots;
    uint32_t slot_count; /* a power of two, at least twice the nodes */
    uint32_t used_count;
};

struct prefix_tree {
    uint32_t page_count;
    uint32_t page_end; /* no page from here on has ever held a block: their nodes are not set yet */
    uint32_t node_count;
    bool texts;                  /* blocks are found by their text as well */
    uint64_t uses;               /* the clock of last_use */
    struct prefix_node *nodes;   /* [page_count] */
    struct block_key *text_keys; /* [page_count] form-free, of each node; NULL without texts */
    struct prefix_index by_key;  /* by true keys */
    struct prefix_index by_text; /* by form-free key and parent: the first node, on which the others
                                  * hang; not opened without texts */
};

/* What a block is found by; it stands for all before it. */
struct prefix_name {
    struct block_key key;
    struct block_key text_key; /* only in a tree with texts */
};

/* Arena bytes that suffice for prefix_tree_open. */
size_t prefix_tree_bytes(uint32_t page_count, bool texts);

/* `texts`: prefix_tree_find_text will be asked; it costs memory, and a hash for each block. */
enum status prefix_tree_open(struct prefix_tree *tree, struct arena *arena, uint32_t page_count,
                             bool texts) MUST_USE;

/* The name of nothing, from which every sequence of this identity goes on. */
struct prefix_name prefix_tree_root(const struct prefix_tree *tree,
                                    const struct block_key_identity *identity);

/* The true key of the block of these tokens behind the block `previous`, or behind the root with
 * that key; the first prompt_tokens of them came with the prompt. */
struct block_key prefix_block_key(const struct block_key *previous,
                                  const uint32_t tokens[KV_BLOCK_TOKENS], uint32_t prompt_tokens);

/* How many leading blocks of a sequence are there: keys[count] are their true keys, in order. */
uint32_t prefix_tree_count(const struct prefix_tree *tree, const struct block_key *keys,
                           uint32_t count);

/* The name of the block of these tokens behind the one of that name; the first prompt_tokens of them
 * came with the prompt. Where the block is kept is fetched into the caches meanwhile: who takes the
 * names of the next few blocks first does not wait for memory. `known`: the block's true key, if
 * it has been made before; NULL: it is made. */
struct prefix_name prefix_tree_next(const struct prefix_tree *tree,
                                    const struct prefix_name *before,
                                    const uint32_t tokens[KV_BLOCK_TOKENS], uint32_t prompt_tokens,
                                    const struct block_key *known);

/* The node of this name, found by its true key. PREFIX_NONE if there is none. */
uint32_t prefix_tree_find(const struct prefix_tree *tree, const struct prefix_name *name);

/* A child of `parent` (PREFIX_NONE: a first block) with the name's tokens, whatever their forms;
 * PREFIX_NONE if there is none. The tree is one with texts. */
uint32_t prefix_tree_find_text(const struct prefix_tree *tree, const struct prefix_name *name,
                               uint32_t parent);

/* A node's name. */
struct prefix_name prefix_tree_name(const struct prefix_tree *tree, uint32_t node);

/* `page`, which is no node yet, holds the block of this name behind `parent` (PREFIX_NONE: it is a
 * first one). Returns the block's node: that of the page, or the one that has held it before; then
 * nothing is done. */
uint32_t prefix_tree_add(struct prefix_tree *tree, struct page_id page, uint32_t parent,
                         const struct prefix_name *name, uint32_t prompt_tokens);

/* The page holds a block of the tree. */
static inline bool prefix_tree_has(const struct prefix_tree *tree, uint32_t page) {
    return page < tree->page_end && tree->nodes[page].present;
}

/* Forgets a node without children. */
void prefix_tree_remove(struct prefix_tree *tree, struct page_id page);

/* A node and its ancestors are used now. */
void prefix_tree_touch(struct prefix_tree *tree, uint32_t node);

/* Recounts everything that is kept twice; check()s that it agrees. Slow. */
void prefix_tree_audit(const struct prefix_tree *tree);

#endif
