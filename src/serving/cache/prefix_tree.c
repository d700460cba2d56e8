/* SPDX-License-Identifier: Apache-2.0
 * The maps are keyed by the first bytes of a hash; the whole key is compared before anything is
 * believed.
 */
#include "serving/cache/prefix_tree.h"

#include "base/check.h"
#include "contract/step_plan.h"

size_t prefix_tree_bytes(uint32_t page_count) {
    return page_count * sizeof(struct prefix_node) + 2 * map_bytes(page_count) + 16;
}

enum status prefix_tree_open(struct prefix_tree *tree, struct arena *arena, uint32_t page_count) {
    *tree = (struct prefix_tree){.page_count = page_count};
    tree->nodes = arena_take_zeroed(arena, page_count * sizeof *tree->nodes);
    if (!tree->nodes) return STATUS_NO_MEMORY;
    enum status status = map_open(&tree->by_key, arena, page_count);
    return status ? status : map_open(&tree->by_text, arena, page_count);
}

struct prefix_place prefix_place_root(const struct block_key_identity *identity) {
    return (struct prefix_place){
        .key = block_key_root(BLOCK_KEY_TRUE, identity),
        .text_key = block_key_root(BLOCK_KEY_FORM_FREE, identity),
        .node = PREFIX_NONE,
    };
}

struct block_key prefix_block_key(const struct block_key *previous,
                                  const uint32_t tokens[KV_BLOCK_TOKENS], uint32_t prompt_tokens) {
    uint8_t forms[KV_BLOCK_TOKENS];
    for (uint32_t i = 0; i < KV_BLOCK_TOKENS; i++)
        forms[i] = i < prompt_tokens ? TOKEN_PROMPT : TOKEN_GENERATED;
    return block_key_next(BLOCK_KEY_TRUE, previous, tokens, forms);
}

static struct block_key text_key(const struct prefix_place *place, const uint32_t *tokens) {
    return block_key_next(BLOCK_KEY_FORM_FREE, &place->text_key, tokens, NULL);
}

static struct map_key map_key_of(const struct block_key *key) {
    struct map_key words;
    memcpy(&words, key->bytes, sizeof words);
    return words;
}

static struct map_key text_map_key(const struct block_key *text_key, uint32_t parent) {
    struct map_key words = map_key_of(text_key);
    words.extra = parent;
    return words;
}

static struct prefix_node *node_at(const struct prefix_tree *tree, uint32_t node) {
    check(node < tree->page_count && tree->nodes[node].present);
    return &tree->nodes[node];
}

static uint32_t find_key(const struct prefix_tree *tree, const struct block_key *key) {
    uint32_t node = map_find(&tree->by_key, map_key_of(key));
    if (node == MAP_NONE) return PREFIX_NONE;
    return block_key_equal(&node_at(tree, node)->key, key) ? node : PREFIX_NONE;
}

static uint32_t find_text(const struct prefix_tree *tree, const struct block_key *key,
                          uint32_t parent) {
    uint32_t node = map_find(&tree->by_text, text_map_key(key, parent));
    if (node == MAP_NONE) return PREFIX_NONE;
    return block_key_equal(&node_at(tree, node)->text_key, key) ? node : PREFIX_NONE;
}

uint32_t prefix_tree_find(const struct prefix_tree *tree, const struct prefix_place *place,
                          const uint32_t tokens[KV_BLOCK_TOKENS], uint32_t prompt_tokens) {
    struct block_key key = prefix_block_key(&place->key, tokens, prompt_tokens);
    return find_key(tree, &key);
}

/* By halves: a block is never there without the one before it. */
uint32_t prefix_tree_count(const struct prefix_tree *tree, const struct block_key *keys,
                           uint32_t count) {
    uint32_t low = 0, high = count;
    if (count && find_key(tree, &keys[0]) == PREFIX_NONE) return 0; /* mostly */
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (find_key(tree, &keys[middle - 1]) == PREFIX_NONE)
            high = middle - 1;
        else
            low = middle;
    }
    return low;
}

uint32_t prefix_tree_find_text(const struct prefix_tree *tree, const struct prefix_place *place,
                               const uint32_t tokens[KV_BLOCK_TOKENS]) {
    struct block_key key = text_key(place, tokens);
    return find_text(tree, &key, place->node);
}

struct prefix_place prefix_tree_place(const struct prefix_tree *tree, uint32_t node) {
    const struct prefix_node *at = node_at(tree, node);
    return (struct prefix_place){.key = at->key, .text_key = at->text_key, .node = node};
}

static uint32_t depth_behind(const struct prefix_tree *tree, uint32_t parent) {
    return parent == PREFIX_NONE ? 0 : node_at(tree, parent)->depth + 1;
}

void prefix_tree_add(struct prefix_tree *tree, struct page_id page,
                     const struct prefix_place *place, const uint32_t tokens[KV_BLOCK_TOKENS],
                     uint32_t prompt_tokens) {
    check(page.index < tree->page_count && !tree->nodes[page.index].present);
    check(prompt_tokens <= KV_BLOCK_TOKENS);
    struct prefix_node *node = &tree->nodes[page.index];
    *node = (struct prefix_node){
        .key = prefix_block_key(&place->key, tokens, prompt_tokens),
        .text_key = text_key(place, tokens),
        .parent = place->node,
        .depth = depth_behind(tree, place->node),
        .next_same_text = PREFIX_NONE,
        .last_use = tree->uses,
        .prompt_tokens = (uint8_t)prompt_tokens,
        .present = true,
    };
    if (place->node != PREFIX_NONE) node_at(tree, place->node)->child_count++;
    uint32_t first = find_text(tree, &node->text_key, place->node);
    map_add(&tree->by_key, map_key_of(&node->key), page.index); /* check()s that it is new */
    if (first == PREFIX_NONE) {
        map_add(&tree->by_text, text_map_key(&node->text_key, place->node), page.index);
    } else { /* the first stays the one that is found */
        node->next_same_text = tree->nodes[first].next_same_text;
        tree->nodes[first].next_same_text = page.index;
    }
    tree->node_count++;
}

static void unlink_text(struct prefix_tree *tree, uint32_t removed) {
    const struct prefix_node *node = &tree->nodes[removed];
    struct map_key key = text_map_key(&node->text_key, node->parent);
    uint32_t first = map_find(&tree->by_text, key);
    check(first != MAP_NONE);
    if (first == removed) {
        map_remove(&tree->by_text, key);
        if (node->next_same_text != PREFIX_NONE) map_add(&tree->by_text, key, node->next_same_text);
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
    map_remove(&tree->by_key, map_key_of(&node->key));
    unlink_text(tree, page.index);
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
    check(find_key(tree, &node->key) == index);
    check(node->depth == depth_behind(tree, node->parent));
    uint32_t same = find_text(tree, &node->text_key, node->parent);
    while (same != index)
        same = node_at(tree, same)->next_same_text;
}

void prefix_tree_audit(const struct prefix_tree *tree) {
    uint32_t count = 0, roots = 0, children = 0;
    for (uint32_t i = 0; i < tree->page_count; i++) {
        if (!tree->nodes[i].present) continue;
        count++;
        roots += tree->nodes[i].parent == PREFIX_NONE;
        children += tree->nodes[i].child_count;
        audit_node(tree, i);
    }
    check(count == tree->node_count && count == tree->by_key.count && count == roots + children);
}
