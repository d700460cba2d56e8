/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/cache/prefix_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/random.h"

enum { PAGES = 48 };
static char memory[1 << 17];

static struct prefix_tree tree;

static void open_tree(void) {
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    assert_true(prefix_tree_bytes(PAGES) <= sizeof memory);
    assert_int_equal(prefix_tree_open(&tree, &arena, PAGES), STATUS_OK);
}

static struct prefix_place root_of(const char *salt) {
    struct block_key_identity identity = {
        .model_id = {7}, .numerics_id = bytes_of("n"), .tenant_salt = bytes_of(salt)};
    return prefix_place_root(&identity);
}

static const uint32_t *block_of(uint32_t token) {
    static uint32_t tokens[KV_BLOCK_TOKENS];
    for (uint32_t i = 0; i < KV_BLOCK_TOKENS; i++)
        tokens[i] = token + i;
    return tokens;
}

static void add(uint32_t page, const struct prefix_place *place, uint32_t token, uint32_t prompt) {
    prefix_tree_add(&tree, (struct page_id){page}, place, block_of(token), prompt);
    prefix_tree_audit(&tree);
}

static void a_chain_is_found_by_its_keys_only(void **state) {
    (void)state;
    open_tree();
    struct prefix_place root = root_of("a"), other = root_of("b");
    add(3, &root, 100, 64);
    struct prefix_place behind = prefix_tree_place(&tree, 3);
    add(9, &behind, 200, 64);
    assert_int_equal(prefix_tree_find(&tree, &root, block_of(100), 64), 3);
    assert_int_equal(prefix_tree_find(&tree, &behind, block_of(200), 64), 9);
    assert_int_equal(prefix_tree_find(&tree, &root, block_of(200), 64), PREFIX_NONE);
    assert_int_equal(prefix_tree_find(&tree, &behind, block_of(201), 64), PREFIX_NONE);
    assert_int_equal(prefix_tree_find(&tree, &other, block_of(100), 64), PREFIX_NONE);
    assert_int_equal(prefix_tree_find_text(&tree, &other, block_of(100)), PREFIX_NONE);
    assert_int_equal(tree.nodes[9].depth, 1);
    prefix_tree_remove(&tree, (struct page_id){9});
    prefix_tree_remove(&tree, (struct page_id){3});
    assert_int_equal(prefix_tree_find(&tree, &root, block_of(100), 64), PREFIX_NONE);
    prefix_tree_audit(&tree);
}

/* The same text in other forms is another block; by text the first of them is found, and the next
 * one when that goes. */
static void generated_text_is_found_by_its_text(void **state) {
    (void)state;
    open_tree();
    struct prefix_place root = root_of("a");
    add(1, &root, 100, 10);
    add(2, &root, 100, 0);
    add(4, &root, 100, 64);
    assert_int_equal(prefix_tree_find(&tree, &root, block_of(100), 64), 4);
    assert_int_equal(prefix_tree_find(&tree, &root, block_of(100), 11), PREFIX_NONE);
    assert_int_equal(prefix_tree_find_text(&tree, &root, block_of(100)), 1);
    prefix_tree_remove(&tree, (struct page_id){4}); /* from the middle of those of one text */
    prefix_tree_audit(&tree);
    prefix_tree_remove(&tree, (struct page_id){1});
    prefix_tree_audit(&tree);
    assert_int_equal(prefix_tree_find_text(&tree, &root, block_of(100)), 2);
    struct prefix_place behind = prefix_tree_place(&tree, 2);
    add(5, &behind, 300, 64);
    assert_int_equal(prefix_tree_find_text(&tree, &root, block_of(300)), PREFIX_NONE);
}

static void a_touch_reaches_the_root(void **state) {
    (void)state;
    open_tree();
    struct prefix_place root = root_of("a");
    add(0, &root, 1, 64);
    struct prefix_place behind = prefix_tree_place(&tree, 0);
    add(1, &behind, 2, 64);
    add(2, &behind, 3, 64);
    prefix_tree_touch(&tree, 1);
    prefix_tree_touch(&tree, 2);
    assert_true(tree.nodes[0].last_use == tree.nodes[2].last_use);
    assert_true(tree.nodes[1].last_use < tree.nodes[2].last_use);
}

/* By keys made beforehand as many blocks are found as by going from one to the next. */
static void assert_counted(uint32_t node, uint32_t token) {
    struct block_key keys[PAGES + 1];
    uint32_t depth = tree.nodes[node].depth;
    keys[depth + 1] =
        prefix_block_key(&tree.nodes[node].key, block_of(token), 17); /* is not there */
    for (uint32_t at = node; at != PREFIX_NONE; at = tree.nodes[at].parent)
        keys[tree.nodes[at].depth] = tree.nodes[at].key;
    for (uint32_t count = 0; count <= depth + 2; count++)
        assert_int_equal(prefix_tree_count(&tree, keys, count),
                         count < depth + 1 ? count : depth + 1);
    assert_int_equal(prefix_tree_count(&tree, keys + depth + 1, 1), 0);
}

/* Blocks come and go in any order: the indexes always agree with the nodes. */
static void the_indexes_agree_over_random_lives(void **state) {
    (void)state;
    open_tree();
    struct prefix_place root = root_of("a");
    uint32_t removed = 0;
    for (uint32_t turn = 0; turn < 4000; turn++) {
        uint32_t page = (uint32_t)(random_uniform(2, 0, turn) * PAGES);
        uint32_t parent = (uint32_t)(random_uniform(2, 1, turn) * PAGES * 2);
        uint32_t token = (uint32_t)(random_uniform(2, 2, turn) * 3);
        uint32_t prompt = (uint32_t)(random_uniform(2, 3, turn) * 3) * 32;
        if (tree.nodes[page].present) {
            if (tree.nodes[page].child_count) continue;
            prefix_tree_remove(&tree, (struct page_id){page});
            removed++;
        } else {
            bool rooted = parent >= PAGES || !tree.nodes[parent].present;
            struct prefix_place place = rooted ? root : prefix_tree_place(&tree, parent);
            if (prefix_tree_find(&tree, &place, block_of(token), prompt) != PREFIX_NONE) continue;
            prefix_tree_add(&tree, (struct page_id){page}, &place, block_of(token), prompt);
            assert_int_equal(prefix_tree_find(&tree, &place, block_of(token), prompt), page);
            uint32_t same = prefix_tree_find_text(&tree, &place, block_of(token));
            assert_true(same != PREFIX_NONE && tree.nodes[same].parent == place.node);
            assert_counted(page, token);
        }
        prefix_tree_audit(&tree);
    }
    assert_true(removed > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_is_found_by_its_keys_only),
        cmocka_unit_test(generated_text_is_found_by_its_text),
        cmocka_unit_test(a_touch_reaches_the_root),
        cmocka_unit_test(the_indexes_agree_over_random_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
