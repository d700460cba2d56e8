/* SPDX-License-Identifier: Apache-2.0
 * Protects a layer's placement under search: loads keep their proportions in the state's unit,
 * ranks' loads follow every change, and sorts and heaps are in order for all lengths.
 */
#include "balance_searches.h"

TEST(loads_keep_their_proportions_near_the_given_sum) {
    static const uint64_t loads[][3] = {{1, 2, 5}, {UINT64_C(1) << 60, UINT64_C(2) << 60, 5 << 20}};
    uint64_t scaled[3];
    for (int i = 0; i < 2; i++) {
        uint64_t sum = balance_state_scale(loads[i], 3, scaled);
        assert_int_equal(sum, scaled[0] + scaled[1] + scaled[2]);
        assert_in_range(sum, UINT64_C(1) << (BALANCE_LOAD_BITS - 1),
                        UINT64_C(1) << BALANCE_LOAD_BITS);
        assert_int_equal(scaled[1], 2 * scaled[0]);
    }
    balance_state_scale((const uint64_t[]){0, 0, 0}, 3, scaled);
    assert_true(scaled[0] > 0 && scaled[0] == scaled[1] && scaled[1] == scaled[2]);
}

TEST(loads_of_ranks_are_those_of_what_their_slots_hold) {
    struct balance_state state = search_open(3, 1, 32), copy;
    static uint64_t memory[2048];
    for (uint32_t slot = 0; slot < SEARCH_SLOTS; slot++)
        state.experts[slot] = (uint16_t)(slot % SEARCH_EXPERTS);
    balance_state_recount(&state);
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t slot = (uint32_t)(random_uniform(1, 0, i) * SEARCH_SLOTS);
        uint32_t expert = (uint32_t)(random_uniform(1, 1, i) * SEARCH_EXPERTS);
        if (state.experts[slot] == expert || state.counts[state.experts[slot]] == 1) continue;
        state.experts[slot] = (uint16_t)expert;
        balance_state_recount(&state);
        assert_true(balance_state_rank_holds(&state, slot / state.room, expert));
        search_assert_true(&state);
    }
    balance_state_open(&copy, SEARCH_EXPERTS, SEARCH_SLOTS, 32, search_loads, memory);
    balance_state_copy(&copy, &state);
    search_assert_true(&copy);
    for (uint32_t rank = 0; rank < 32; rank++)
        assert_true(copy.rank_loads[rank] <= balance_state_max(&copy));
}

TEST(keys_sort_by_share_and_equal_ones_by_id_whatever_their_number) {
    uint64_t keys[100], other[100];
    for (uint32_t count = 0; count <= 100; count++) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            keys[i] = balance_state_key((uint64_t)(random_uniform(2, count, i) * 20), i);
            sum += keys[i];
        }
        balance_state_sort(keys, other, count);
        for (uint32_t i = 0; i < count; i++) {
            sum -= keys[i];
            if (i == 0) continue;
            assert_true(keys[i - 1] > keys[i]);
            if (keys[i - 1] >> 16 == keys[i] >> 16)
                assert_true(balance_state_key_id(keys[i - 1]) < balance_state_key_id(keys[i]));
        }
        assert_int_equal(sum, 0); /* all are there */
    }
}

TEST(a_heap_gives_its_keys_from_the_largest_on) {
    enum { COUNT = 37 };
    uint64_t heap[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        heap[i] = (uint64_t)(random_uniform(3, 0, i) * 1000);
    for (uint32_t i = COUNT / 2; i-- > 0;)
        balance_state_sink(heap, COUNT, i);
    for (uint32_t count = COUNT; count > 1; count--) {
        uint64_t first = heap[0];
        heap[0] = heap[count - 1];
        balance_state_sink(heap, count - 1, 0);
        assert_true(heap[0] <= first);
    }
}
