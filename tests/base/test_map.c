/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include "base/random.h"
#include "test_case.h"

/* Against a plain array, over many adds and removes at a full table: removal shifts entries, and a
 * mistake there loses keys that have nothing to do with the one removed. */
TEST(it_agrees_with_an_array) {
    enum { CAPACITY = 64, KEYS = 200 };
    static char memory[1 << 16];
    struct arena arena;
    struct map map;
    uint32_t truth[KEYS], held = 0;
    assert_true(map_bytes(CAPACITY) <= sizeof memory);
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(map_open(&map, &arena, CAPACITY), STATUS_OK);
    for (uint32_t i = 0; i < KEYS; i++)
        truth[i] = MAP_NONE;
    for (uint32_t turn = 0; turn < 20000; turn++) {
        uint32_t i = (uint32_t)(random_uniform(3, 0, turn) * KEYS);
        struct map_key key = {i / 50, i % 50, i % 3};
        map_prefetch(&map, key); /* which changes nothing */
        assert_int_equal(map_find(&map, key), truth[i]);
        if (truth[i] != MAP_NONE) {
            map_remove(&map, key);
            truth[i] = MAP_NONE;
            held--;
        } else if (held < CAPACITY) {
            map_add(&map, key, turn);
            map_prefetch(&map, key);
            truth[i] = turn;
            held++;
        }
        assert_int_equal(map.count, held);
    }
    for (uint32_t i = 0; i < KEYS; i++)
        assert_int_equal(map_find(&map, (struct map_key){i / 50, i % 50, i % 3}), truth[i]);
}

TEST(too_little_memory_is_said) {
    char memory[64];
    struct arena arena;
    struct map map;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(map_open(&map, &arena, 1000), STATUS_NO_MEMORY);
}
