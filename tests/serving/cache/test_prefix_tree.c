/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/cache/prefix_tree.h"

#include "base/random.h"
#include "test_case.h"

enum { PAGES = 48 };
static char memory[1 << 17];

static struct prefix_tree tree;

static void open_tree(void) {
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    assert_true(prefix_tree_bytes(PAGES, true) <= sizeof memory);
    assert_int_equal(prefix_tree_open(&tree, &arena, PAGES, true), STATUS_OK);
}

/* A place in a sequence: behind a node, with the name so far. */
struct place {
    struct prefix_name name;
    uint32_t node;
};

static struct place root_of(const char *salt) {
    struct block_key_identity identity = {
        .model_id = {7}, .numerics_id = bytes_of("n"), .tenant_salt = bytes_of(salt)};
    return (struct place){prefix_tree_root(&tree, &identity), PREFIX_NONE};
}

static struct place behind_node(uint32_t node) {
    return (struct place){prefix_tree_name(&tree, node), node};
}

static const uint32_t *block_of(uint32_t token) {
    static uint32_t tokens[KV_BLOCK_TOKENS];
    for (uint32_t i = 0; i < KV_BLOCK_TOKENS; i++)
        tokens[i] = token + i;
    return tokens;
}

static struct prefix_name name_at(const struct place *place, uint32_t token, uint32_t prompt) {
    return prefix_tree_next(&tree, &place->name, block_of(token), prompt, NULL);
}

static uint32_t add(uint32_t page, const struct place *place, uint32_t token, uint32_t prompt) {
    struct prefix_name name = name_at(place, token, prompt);
    uint32_t node = prefix_tree_add(&tree, (struct page_id){page}, place->node, &name, prompt);
    prefix_tree_audit(&tree);
    return node;
}

static uint32_t find(const struct place *place, uint32_t token, uint32_t prompt) {
    struct prefix_name name = name_at(place, token, prompt);
    return prefix_tree_find(&tree, &name);
}

static uint32_t find_text(const struct place *place, uint32_t token) {
    struct prefix_name name = name_at(place, token, 0);
    return prefix_tree_find_text(&tree, &name, place->node);
}

TEST(a_chain_is_found_by_its_keys_only) {
    open_tree();
    struct place root = root_of("a"), other = root_of("b");
    add(3, &root, 100, 64);
    struct place behind = behind_node(3);
    add(9, &behind, 200, 64);
    assert_int_equal(find(&root, 100, 64), 3);
    assert_int_equal(find(&behind, 200, 64), 9);
    assert_int_equal(find(&root, 200, 64), PREFIX_NONE);
    assert_int_equal(find(&behind, 201, 64), PREFIX_NONE);
    assert_int_equal(find(&other, 100, 64), PREFIX_NONE);
    assert_int_equal(find_text(&other, 100), PREFIX_NONE);
    assert_int_equal(tree.nodes[9].depth, 1);
    prefix_tree_remove(&tree, (struct page_id){9});
    prefix_tree_remove(&tree, (struct page_id){3});
    assert_int_equal(find(&root, 100, 64), PREFIX_NONE);
    prefix_tree_audit(&tree);
}

/* The same text in other forms is another block; by text the first of them is found, and the next
 * one when that goes. */
TEST(generated_text_is_found_by_its_text) {
    open_tree();
    struct place root = root_of("a");
    add(1, &root, 100, 10);
    add(2, &root, 100, 0);
    add(4, &root, 100, 64);
    assert_int_equal(find(&root, 100, 64), 4);
    assert_int_equal(find(&root, 100, 11), PREFIX_NONE);
    assert_int_equal(find_text(&root, 100), 1);
    prefix_tree_remove(&tree, (struct page_id){4}); /* from the middle of those of one text */
    prefix_tree_audit(&tree);
    prefix_tree_remove(&tree, (struct page_id){1});
    prefix_tree_audit(&tree);
    assert_int_equal(find_text(&root, 100), 2);
    struct place behind = behind_node(2);
    add(5, &behind, 300, 64);
    assert_int_equal(find_text(&root, 300), PREFIX_NONE);
}

TEST(a_touch_reaches_the_root) {
    open_tree();
    struct place root = root_of("a");
    add(0, &root, 1, 64);
    struct place behind = behind_node(0);
    add(1, &behind, 2, 64);
    add(2, &behind, 3, 64);
    prefix_tree_touch(&tree, 1);
    prefix_tree_touch(&tree, 2);
    assert_true(tree.nodes[0].last_use == tree.nodes[2].last_use);
    assert_true(tree.nodes[1].last_use < tree.nodes[2].last_use);
}

/* Two requests that compute the same block at once: one page is enough. */
TEST(a_block_that_is_there_stays_where_it_is) {
    open_tree();
    struct place root = root_of("a");
    assert_int_equal(add(3, &root, 100, 64), 3);
    assert_int_equal(add(5, &root, 100, 64), 3);
    assert_false(prefix_tree_has(&tree, 5));
    assert_int_equal(tree.node_count, 1);
    assert_int_equal(add(5, &root, 100, 63), 5);
}

/* Who never asks for texts pays for none: neither memory nor hashes. */
TEST(a_tree_without_texts_finds_by_key) {
    struct arena arena;
    size_t bytes = prefix_tree_bytes(PAGES, false);
    assert_true(bytes < prefix_tree_bytes(PAGES, true));
    arena_over(&arena, memory, bytes);
    memset(memory, 0xff, bytes); /* of a tree before it */
    assert_int_equal(prefix_tree_open(&tree, &arena, PAGES, false), STATUS_OK);
    struct place root = root_of("a");
    assert_int_equal(add(7, &root, 100, 10), 7);
    struct place behind = behind_node(7);
    assert_int_equal(add(2, &behind, 200, 10), 2);
    assert_int_equal(find(&root, 100, 10), 7);
    assert_int_equal(find(&root, 100, 64), PREFIX_NONE);
    assert_int_equal(find(&behind, 200, 10), 2);
    prefix_tree_remove(&tree, (struct page_id){2});
    prefix_tree_remove(&tree, (struct page_id){7});
    assert_int_equal(find(&root, 100, 10), PREFIX_NONE);
    prefix_tree_audit(&tree);
}

/* By keys made beforehand as many blocks are found as by going from one to the next. */
static void assert_counted(uint32_t node, uint32_t token) {
    struct block_key keys[PAGES + 1];
    uint32_t depth = tree.nodes[node].depth;
    keys[depth + 1] =
        prefix_tree_block_key(&tree.nodes[node].key, block_of(token), 17); /* is not there */
    for (uint32_t at = node; at != PREFIX_NONE; at = tree.nodes[at].parent)
        keys[tree.nodes[at].depth] = tree.nodes[at].key;
    for (uint32_t count = 0; count <= depth + 2; count++)
        assert_int_equal(prefix_tree_count(&tree, keys, count),
                         count < depth + 1 ? count : depth + 1);
    assert_int_equal(prefix_tree_count(&tree, keys + depth + 1, 1), 0);
}

/* Blocks come and go in any order: the indexes always agree with the nodes. */
TEST(the_indexes_agree_over_random_lives) {
    open_tree();
    struct place root = root_of("a");
    uint32_t removed = 0;
    for (uint32_t turn = 0; turn < 4000; turn++) {
        uint32_t page = (uint32_t)(random_uniform(2, 0, turn) * PAGES);
        uint32_t parent = (uint32_t)(random_uniform(2, 1, turn) * PAGES * 2);
        uint32_t token = (uint32_t)(random_uniform(2, 2, turn) * 3);
        uint32_t prompt = (uint32_t)(random_uniform(2, 3, turn) * 3) * 32;
        if (prefix_tree_has(&tree, page)) {
            if (tree.nodes[page].child_count) continue;
            prefix_tree_remove(&tree, (struct page_id){page});
            removed++;
        } else {
            bool rooted = parent >= PAGES || !prefix_tree_has(&tree, parent);
            struct place place = rooted ? root : behind_node(parent);
            if (find(&place, token, prompt) != PREFIX_NONE) continue;
            assert_int_equal(add(page, &place, token, prompt), page);
            assert_int_equal(find(&place, token, prompt), page);
            uint32_t same = find_text(&place, token);
            assert_true(same != PREFIX_NONE && tree.nodes[same].parent == place.node);
            assert_counted(page, token);
        }
        prefix_tree_audit(&tree);
    }
    assert_true(removed > 200);
}
