/* SPDX-License-Identifier: Apache-2.0
 * Protects who is served first of all that wait for a time: in order, however times are moved.
 */
#include "base/due_heap.h"

#include "test_case.h"

enum { NUMBERS = 200 };

static _Alignas(16) char memory[NUMBERS * 32];

static struct due_heap open_heap(void) {
    struct arena arena;
    struct due_heap heap;
    arena_over(&arena, memory, sizeof memory);
    assert_true(due_heap_bytes(NUMBERS) <= sizeof memory);
    assert_int_equal(due_heap_open(&heap, &arena, NUMBERS), STATUS_OK);
    return heap;
}

TEST(an_empty_one_has_nothing_due) {
    struct due_heap heap = open_heap();
    uint32_t number = 77;
    assert_true(due_heap_first(&heap, &number) == DUE_NEVER);
    assert_int_equal(number, 77);
    due_heap_set(&heap, 5, DUE_NEVER);
    assert_int_equal(heap.count, 0);
}

TEST(what_is_set_moved_and_taken_back_comes_out_in_the_order_of_a_plain_search) {
    struct due_heap heap = open_heap();
    int64_t times[NUMBERS];
    uint64_t drawn = 1;
    for (uint32_t i = 0; i < NUMBERS; i++)
        times[i] = DUE_NEVER;
    for (uint32_t round = 0; round < 20000; round++) {
        drawn = drawn * 6364136223846793005u + 1442695040888963407u;
        uint32_t number = (uint32_t)(drawn >> 33) % NUMBERS, first = 0, found = 0;
        int64_t at_ns = drawn >> 60 ? (int64_t)(drawn >> 40) % 50 : DUE_NEVER;
        due_heap_set(&heap, number, at_ns);
        times[number] = at_ns;
        for (uint32_t i = 1; i < NUMBERS; i++)
            if (times[i] < times[first]) first = i;
        assert_true(due_heap_time(&heap, number) == at_ns);
        assert_true(due_heap_first(&heap, &found) == times[first]);
        if (times[first] != DUE_NEVER) assert_int_equal(found, first);
        if (round % 500 == 0) due_heap_audit(&heap);
    }
}
