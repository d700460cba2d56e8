/* SPDX-License-Identifier: Apache-2.0
 * Protects the guess at what a memory still has: the last ones that were put in, each once,
 * whatever went through before; leading ones only up to the first that is gone.
 */

#include "base/random.h"
#include "serving/cache/recent_blocks.h"
#include "test_case.h"

enum { CAPACITY = 20, NAMES = 50 };

static char memory[1 << 13];
static struct recent_blocks blocks;

static void open_blocks(uint32_t capacity) {
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    assert_true(recent_blocks_bytes(capacity) <= sizeof memory);
    assert_int_equal(recent_blocks_open(&blocks, &arena, capacity), STATUS_OK);
}

static struct block_key key_of(uint32_t name) {
    struct block_key key = {{0}};
    memcpy(key.bytes + 8, &name, sizeof name);
    return key;
}

static bool has(uint32_t name) {
    struct block_key key = key_of(name);
    return recent_blocks_count(&blocks, &key, 1) == 1;
}

TEST(only_the_last_are_there) {
    uint32_t order[CAPACITY], count = 0; /* the oldest first */
    open_blocks(CAPACITY);
    for (uint32_t turn = 0; turn < 5000; turn++) {
        uint32_t name = (uint32_t)(random_uniform(1, 0, turn) * NAMES);
        bool there = false;
        for (uint32_t i = 0; i < count; i++)
            there |= order[i] == name;
        assert_int_equal(has(name), there);
        struct block_key key = key_of(name);
        recent_blocks_note(&blocks, &key, 1);
        assert_true(has(name));
        if (there) continue;
        if (count == CAPACITY) memmove(order, order + 1, --count * sizeof order[0]);
        order[count++] = name;
    }
}

TEST(a_run_ends_at_the_first_gap) {
    struct block_key keys[CAPACITY + 5];
    for (uint32_t i = 0; i < CAPACITY + 5; i++)
        keys[i] = key_of(i);
    open_blocks(CAPACITY);
    assert_int_equal(recent_blocks_count(&blocks, keys, 5), 0);
    recent_blocks_note(&blocks, keys, 7);
    assert_int_equal(recent_blocks_count(&blocks, keys, 5), 5);
    assert_int_equal(recent_blocks_count(&blocks, keys, 9), 7);
    recent_blocks_note(&blocks, keys + 8, CAPACITY - 7);
    assert_int_equal(recent_blocks_count(&blocks, keys, CAPACITY), 7); /* the eighth is not there */
    recent_blocks_note(&blocks, keys + 7, 1);
    assert_int_equal(recent_blocks_count(&blocks, keys, CAPACITY), 0); /* the first one had to go */
    assert_int_equal(recent_blocks_count(&blocks, keys + 1, CAPACITY), CAPACITY);
}

TEST(without_memory_nothing_is_there) {
    struct block_key key = key_of(1);
    assert_int_equal(recent_blocks_bytes(0), 0);
    open_blocks(0);
    recent_blocks_note(&blocks, &key, 1);
    assert_false(has(1));
}
