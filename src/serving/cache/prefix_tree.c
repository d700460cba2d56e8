/* SPDX-License-Identifier: Apache-2.0
 * The indexes use linear probing and are at most half full. A removal shifts later slots back, so
 * there are no tombstones. A tag is the first bytes of a hash, and the whole key is always compared
 * after a match.
 */
#include "serving/cache/prefix_tree.h"

#include "base/check.h"
#include "contract/step_plan.h"

_Static_assert(sizeof(struct prefix_node) == 64, "a node is one cache line");

/* ---- indexes ---- */

static uint32_t slot_count_for(uint32_t page_count) {
    check(page_count > 0 && page_count <= (uint32_t)1 << 30);
    uint32_t count = 2;
    while (count < 2 * page_count)
        count *= 2;
    return count;
}

static size_t index_bytes(uint32_t page_count) {
    return slot_count_for(page_count) * sizeof(struct prefix_slot) + 16;
}

static enum status index_open(struct prefix_index *index, struct arena *arena,
                              uint32_t page_count) {
    uint32_t count = slot_count_for(page_count);
    struct prefix_slot *slots = arena_take(arena, count * sizeof *slots);
    if (!slots) return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        slots[i] = (struct prefix_slot){.node = PREFIX_NONE};
    *index = (struct prefix_index){.slots = slots, .slot_count = count};
    return STATUS_OK;
}

/* Finds the next node with this tag, from *place_io on, and sets *place_io to the position after
 * its slot. PREFIX_NONE if there is none. */
static uint32_t index_next(const struct prefix_index *index, uint32_t tag, uint32_t *place_io) {
    uint32_t mask = index->slot_count - 1;
    const struct prefix_slot *slot;
    do
        slot = &index->slots[(*place_io)++ & mask];
    while (slot->node != PREFIX_NONE && slot->tag != tag);
    return slot->node;
}

static void index_add(struct prefix_index *index, uint32_t tag, uint32_t node) {
    uint32_t mask = index->slot_count - 1, place = tag & mask;
    check(2 * ++index->used_count <= index->slot_count);
    while (index->slots[place].node != PREFIX_NONE)
        place = (place + 1) & mask;
    index->slots[place] = (struct prefix_slot){tag, node};
}

static void index_remove(struct prefix_index *index, uint32_t tag, uint32_t node) {
    struct prefix_slot *slots = index->slots;
    uint32_t mask = index->slot_count - 1, hole = tag & mask;
    while (slots[hole].node != node) {
        check(slots[hole].node != PREFIX_NONE);
        hole = (hole + 1) & mask;
    }
    for (uint32_t next = (hole + 1) & mask; slots[next].node != PREFIX_NONE;
         next = (next + 1) & mask)
        if (((next - slots[next].tag) & mask) >= ((next - hole) & mask)) {
            slots[hole] = slots[next];
            hole = next;
        }
    slots[hole].node = PREFIX_NONE;
    index->used_count--;
}

/* ---- the tree ---- */

size_t prefix_tree_bytes(uint32_t page_count, bool texts) {
    size_t text_bytes = page_count * sizeof(struct block_key) + index_bytes(page_count) + 16;
    return page_count * sizeof(struct prefix_node) + index_bytes(page_count) + ARENA_LINE_BYTES +
           (texts ? text_bytes : 0);
}

static enum status prefix_tree_open_texts(struct prefix_tree *tree, struct arena *arena) {
    tree->text_keys = arena_take(arena, tree->page_count * sizeof *tree->text_keys);
    return tree->text_keys ? index_open(&tree->by_text, arena, tree->page_count) : STATUS_NO_MEMORY;
}

enum status prefix_tree_open(struct prefix_tree *tree, struct arena *arena, uint32_t page_count,
                             bool texts) {
    *tree = (struct prefix_tree){.page_count = page_count, .texts = texts};
    tree->nodes = arena_take_lines(arena, page_count * sizeof *tree->nodes);
    if (!tree->nodes) return STATUS_NO_MEMORY;
    enum status status = index_open(&tree->by_key, arena, page_count);
    return status || !texts ? status : prefix_tree_open_texts(tree, arena);
}

struct prefix_name prefix_tree_root(const struct prefix_tree *tree,
                                    const struct block_key_identity *identity) {
    struct prefix_name name = {.key = block_key_root(BLOCK_KEY_TRUE, identity)};
    if (tree->texts) name.text_key = block_key_root(BLOCK_KEY_MODE_FREE, identity);
    return name;
}

struct block_key prefix_tree_block_key(const struct block_key *previous,
                                       const uint32_t tokens[KV_BLOCK_TOKENS],
                                       uint32_t prompt_tokens) {
    uint8_t forms[KV_BLOCK_TOKENS];
    for (uint32_t i = 0; i < KV_BLOCK_TOKENS; i++)
        forms[i] = i < prompt_tokens ? TOKEN_PROMPT : TOKEN_GENERATED;
    return block_key_next(BLOCK_KEY_TRUE, previous, tokens, forms);
}

static uint32_t prefix_tree_tag_of(const struct block_key *key) {
    uint32_t tag;
    memcpy(&tag, key->bytes, sizeof tag);
    return tag;
}

static uint32_t text_tag(const struct block_key *text_key, uint32_t parent) {
    return prefix_tree_tag_of(text_key) ^ parent * 0x9E3779B1u;
}

static struct prefix_node *node_at(const struct prefix_tree *tree, uint32_t node) {
    check(prefix_tree_has(tree, node));
    return &tree->nodes[node];
}

static uint32_t prefix_tree_find_key(const struct prefix_tree *tree, const struct block_key *key) {
    uint32_t tag = prefix_tree_tag_of(key), place = tag, node;
    do
        node = index_next(&tree->by_key, tag, &place);
    while (node != PREFIX_NONE && !block_key_equal(&node_at(tree, node)->key, key));
    return node;
}

static uint32_t find_text(const struct prefix_tree *tree, const struct block_key *key,
                          uint32_t parent) {
    uint32_t tag = text_tag(key, parent), place = tag, node;
    do
        node = index_next(&tree->by_text, tag, &place);
    while (node != PREFIX_NONE && (node_at(tree, node)->parent != parent ||
                                   !block_key_equal(&tree->text_keys[node], key)));
    return node;
}

struct prefix_name prefix_tree_next(const struct prefix_tree *tree,
                                    const struct prefix_name *before,
                                    const uint32_t tokens[KV_BLOCK_TOKENS], uint32_t prompt_tokens,
                                    const struct block_key *known) {
    struct prefix_name name = {
        .key = known ? *known : prefix_tree_block_key(&before->key, tokens, prompt_tokens)};
    const struct prefix_index *index = &tree->by_key;
    __builtin_prefetch(&index->slots[prefix_tree_tag_of(&name.key) & (index->slot_count - 1)], 1);
    if (tree->texts)
        name.text_key = block_key_next(BLOCK_KEY_MODE_FREE, &before->text_key, tokens, NULL);
    return name;
}

uint32_t prefix_tree_find(const struct prefix_tree *tree, const struct prefix_name *name) {
    return prefix_tree_find_key(tree, &name->key);
}

/* Uses bisection, because a block is never present without the preceding one. */
uint32_t prefix_tree_count(const struct prefix_tree *tree, const struct block_key *keys,
                           uint32_t count) {
    uint32_t low = 0, high = count;
    if (count && prefix_tree_find_key(tree, &keys[0]) == PREFIX_NONE) return 0; /* the usual case */
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (prefix_tree_find_key(tree, &keys[middle - 1]) == PREFIX_NONE)
            high = middle - 1;
        else
            low = middle;
    }
    return low;
}

uint32_t prefix_tree_find_text(const struct prefix_tree *tree, const struct prefix_name *name,
                               uint32_t parent) {
    check(tree->texts);
    return find_text(tree, &name->text_key, parent);
}

struct prefix_name prefix_tree_name(const struct prefix_tree *tree, uint32_t node) {
    struct prefix_name name = {.key = node_at(tree, node)->key};
    if (tree->texts) name.text_key = tree->text_keys[node];
    return name;
}

static uint32_t depth_behind(const struct prefix_tree *tree, uint32_t parent) {
    return parent == PREFIX_NONE ? 0 : node_at(tree, parent)->depth + 1;
}

/* Adds the node to those with the same tokens. The first node of the list stays first. */
static void link_text(struct prefix_tree *tree, uint32_t added, const struct block_key *text_key) {
    struct prefix_node *node = &tree->nodes[added];
    tree->text_keys[added] = *text_key;
    uint32_t first = find_text(tree, text_key, node->parent);
    if (first == PREFIX_NONE) {
        index_add(&tree->by_text, text_tag(text_key, node->parent), added);
        return;
    }
    node->next_same_text = tree->nodes[first].next_same_text;
    tree->nodes[first].next_same_text = added;
}

uint32_t prefix_tree_add(struct prefix_tree *tree, struct page_id page, uint32_t parent,
                         const struct prefix_name *name, uint32_t prompt_tokens) {
    check(page.index < tree->page_count && !prefix_tree_has(tree, page.index));
    check(prompt_tokens <= KV_BLOCK_TOKENS);
    uint32_t found = prefix_tree_find_key(tree, &name->key);
    if (found != PREFIX_NONE) return found;
    index_add(&tree->by_key, prefix_tree_tag_of(&name->key), page.index);
    while (tree->page_end <= page.index)
        tree->nodes[tree->page_end++].present = false;
    tree->nodes[page.index] = (struct prefix_node){
        .key = name->key,
        .parent = parent,
        .depth = depth_behind(tree, parent),
        .next_same_text = PREFIX_NONE,
        .last_use = tree->uses,
        .prompt_tokens = (uint8_t)prompt_tokens,
        .present = true,
    };
    if (parent != PREFIX_NONE) node_at(tree, parent)->child_count++;
    if (tree->texts) link_text(tree, page.index, &name->text_key);
    tree->node_count++;
    return page.index;
}

static void unlink_text(struct prefix_tree *tree, uint32_t removed) {
    const struct prefix_node *node = &tree->nodes[removed];
    const struct block_key *text_key = &tree->text_keys[removed];
    uint32_t first = find_text(tree, text_key, node->parent);
    if (first == removed) {
        uint32_t tag = text_tag(text_key, node->parent);
        index_remove(&tree->by_text, tag, removed);
        if (node->next_same_text != PREFIX_NONE)
            index_add(&tree->by_text, tag, node->next_same_text);
        return;
    }
    while (node_at(tree, first)->next_same_text != removed)
        first = tree->nodes[first].next_same_text;
    tree->nodes[first].next_same_text = node->next_same_text;
}

void prefix_tree_remove(struct prefix_tree *tree, struct page_id page) {
    struct prefix_node *node = node_at(tree, page.index);
    check(node->child_count == 0);
    if (node->parent != PREFIX_NONE) node_at(tree, node->parent)->child_count--;
    index_remove(&tree->by_key, prefix_tree_tag_of(&node->key), page.index);
    if (tree->texts) unlink_text(tree, page.index);
    node->present = false;
    tree->node_count--;
}

void prefix_tree_touch(struct prefix_tree *tree, uint32_t node) {
    uint64_t now = ++tree->uses;
    for (; node != PREFIX_NONE; node = tree->nodes[node].parent)
        node_at(tree, node)->last_use = now;
}

static void audit_node(const struct prefix_tree *tree, uint32_t index) {
    const struct prefix_node *node = &tree->nodes[index];
    check(prefix_tree_find_key(tree, &node->key) == index);
    check(node->depth == depth_behind(tree, node->parent));
    if (!tree->texts) return;
    uint32_t same = find_text(tree, &tree->text_keys[index], node->parent);
    while (same != index)
        same = node_at(tree, same)->next_same_text;
}

void prefix_tree_audit(const struct prefix_tree *tree) {
    uint32_t count = 0, roots = 0, children = 0;
    for (uint32_t i = 0; i < tree->page_end; i++) {
        if (!tree->nodes[i].present) continue;
        count++;
        roots += tree->nodes[i].parent == PREFIX_NONE;
        children += tree->nodes[i].child_count;
        audit_node(tree, i);
    }
    check(count == tree->node_count && count == tree->by_key.used_count);
    check(count == roots + children);
}
