/* SPDX-License-Identifier: Apache-2.0
 * Protects the gateway's memory of who computed what: leading blocks only, each unit by itself,
 * forgotten when its pages would have been, or when it goes; bounded, the least used leave first;
 * tenants do not see each other.
 */

#include "base/random.h"
#include "serving/cache/prefix_affinity.h"
#include "test_case.h"

enum { KEYS = 8, ENTRIES = 64 };

static struct prefix_affinity affinity;
static uint32_t blocks[LIMIT_FLEET_UNITS];

static void open_table(void *memory, size_t bytes) {
    struct arena arena;
    arena_over(&arena, memory, bytes);
    assert_int_equal(prefix_affinity_open(&affinity, &arena, ENTRIES), STATUS_OK);
    for (uint32_t unit = 0; unit < 6; unit++)
        prefix_affinity_welcome(&affinity, unit, 16);
}

static int open_one(void **state) {
    size_t bytes = prefix_affinity_bytes(ENTRIES);
    *state = malloc(bytes);
    open_table(*state, bytes);
    return 0;
}

static int close_one(void **state) {
    free(*state);
    return 0;
}

/* Prompts of a family begin alike; from block `apart` on they differ. */
static void make_keys(uint64_t root, uint32_t family, uint32_t apart, uint64_t keys[KEYS]) {
    uint32_t tokens[KEYS * KV_BLOCK_TOKENS];
    for (uint32_t i = 0; i < KEYS * KV_BLOCK_TOKENS; i++)
        tokens[i] = i / KV_BLOCK_TOKENS < apart ? i : i + 1000 * (1 + family);
    prefix_affinity_keys(root, tokens, KEYS, keys);
}

TEST_AROUND(leading_blocks_are_found_at_each_unit, open_one, close_one) {
    uint64_t one[KEYS], other[KEYS];
    make_keys(1, 0, 3, one);
    make_keys(1, 1, 3, other);
    prefix_affinity_note(&affinity, 2, one, KEYS);
    prefix_affinity_note(&affinity, 5, other, 5);
    assert_int_equal(prefix_affinity_find(&affinity, one, KEYS, blocks), KEYS);
    assert_int_equal(blocks[2], KEYS);
    assert_int_equal(blocks[5], 3);
    assert_int_equal(blocks[0], 0);
    assert_int_equal(prefix_affinity_find(&affinity, other, KEYS, blocks), 5);
    assert_int_equal(blocks[5], 5);
    assert_int_equal(blocks[2], 3);
    make_keys(2, 0, 3, one); /* another tenant's */
    assert_int_equal(prefix_affinity_find(&affinity, one, KEYS, blocks), 0);
    assert_int_equal(blocks[2], 0);
}

TEST_AROUND(a_unit_forgets_as_its_pages_would, open_one, close_one) {
    uint64_t first[KEYS], keys[KEYS];
    make_keys(1, 0, 0, first);
    prefix_affinity_note(&affinity, 1, first, KEYS);
    prefix_affinity_note(&affinity, 3, first, KEYS);
    for (uint32_t family = 1; family <= 2; family++) { /* 16 blocks more */
        make_keys(1, family, 0, keys);
        prefix_affinity_note(&affinity, 1, keys, KEYS);
    }
    assert_int_equal(prefix_affinity_find(&affinity, first, KEYS, blocks), KEYS);
    assert_int_equal(blocks[1], 0);
    assert_int_equal(blocks[3], KEYS);
    for (uint32_t again = 0; again < 50; again++) /* what it has takes no room again */
        prefix_affinity_note(&affinity, 3, first, KEYS);
    prefix_affinity_note(&affinity, 3, keys, 4);
    prefix_affinity_find(&affinity, first, KEYS, blocks);
    assert_int_equal(blocks[3], KEYS);
    prefix_affinity_welcome(&affinity, 3, 16); /* another in its place */
    assert_int_equal(prefix_affinity_find(&affinity, first, KEYS, blocks), KEYS);
    assert_int_equal(blocks[3], 0); /* but a storage may have it */
}

TEST_AROUND(the_table_is_bounded, open_one, close_one) {
    uint64_t hot[KEYS], keys[KEYS];
    make_keys(1, 0, 0, hot);
    prefix_affinity_welcome(&affinity, 4, 1 << 20);
    for (uint32_t family = 1; family < 2000; family++) {
        make_keys(1, family, 0, keys);
        prefix_affinity_note(&affinity, 4, keys, 1);
        prefix_affinity_note(&affinity, 4, hot, 1);
    }
    prefix_affinity_find(&affinity, hot, 1, blocks);
    assert_int_equal(blocks[4], 1);
    for (uint32_t unit = 0; unit < 6; unit++) /* the last of those that had it stay */
        prefix_affinity_note(&affinity, unit, hot, 1);
    prefix_affinity_find(&affinity, hot, 1, blocks);
    for (uint32_t unit = 0; unit < 6; unit++)
        assert_int_equal(blocks[unit], unit >= 6 - PREFIX_AFFINITY_UNITS);
}
