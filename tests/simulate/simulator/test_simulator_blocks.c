/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator_blocks.h"

#include "base/random.h"
#include "test_case.h"

static struct block_key key(uint64_t number) {
    struct block_key out = {{0}};
    number *= 0x9E3779B97F4A7C15u;
    memcpy(out.bytes, &number, sizeof number);
    return out;
}

static void *opened(struct simulator_blocks *set, uint32_t capacity) {
    struct arena arena;
    size_t bytes = simulator_blocks_bytes(capacity);
    void *memory = malloc(bytes);
    assert_non_null(memory);
    arena_over(&arena, memory, bytes);
    assert_true(simulator_blocks_open(set, &arena, capacity));
    return memory;
}

/* Against a list of keys by their last use. */
TEST(the_one_used_longest_ago_makes_room) {
    enum { CAPACITY = 50, KEYS = 120 };
    struct simulator_blocks set;
    void *memory = opened(&set, CAPACITY);
    uint32_t used[KEYS] = {0}; /* when; 0: it is not there */
    uint32_t count = 0;
    for (uint32_t i = 1; i < 20000; i++) {
        uint32_t number = (uint32_t)(random_uniform(1, 0, i) * KEYS);
        struct block_key name = key(number);
        simulator_blocks_prefetch(&set, &name, 1); /* which changes nothing */
        if (random_uniform(2, 0, i) < 0.5) {
            assert_int_equal(simulator_blocks_has(&set, &name, true, 0), used[number] > 0);
            if (used[number]) used[number] = i;
            continue;
        }
        simulator_blocks_add(&set, &name, 0);
        if (!used[number] && count == CAPACITY) {
            uint32_t oldest = KEYS;
            for (uint32_t k = 0; k < KEYS; k++)
                if (used[k] && (oldest == KEYS || used[k] < used[oldest])) oldest = k;
            used[oldest] = 0;
        } else {
            count += !used[number];
        }
        used[number] = i;
    }
    assert_int_equal(set.count, CAPACITY);
    free(memory);
}

TEST(a_block_is_there_when_it_is_whole) {
    struct simulator_blocks set;
    struct block_key name = key(1);
    void *memory = opened(&set, 4);
    simulator_blocks_add(&set, &name, 100);
    assert_true(simulator_blocks_knows(&set, &name));
    assert_false(simulator_blocks_has(&set, &name, true, 99));
    assert_true(simulator_blocks_has(&set, &name, true, 100));
    simulator_blocks_add(&set, &name, 500); /* it was there before */
    assert_true(simulator_blocks_has(&set, &name, true, 100));
    simulator_blocks_clear(&set);
    assert_false(simulator_blocks_knows(&set, &name));
    free(memory);
}

TEST(a_set_of_no_capacity_stays_empty) {
    struct simulator_blocks set;
    struct block_key name = key(1);
    void *memory = opened(&set, 0);
    simulator_blocks_add(&set, &name, 0);
    assert_false(simulator_blocks_has(&set, &name, true, 0));
    free(memory);
}
