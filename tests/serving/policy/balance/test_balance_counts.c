/* SPDX-License-Identifier: Apache-2.0
 * Protects how many replicas each expert gets: no other numbers give a smaller largest share.
 */
#include "balance_searches.h"

/* Slots that suffice for no share above `cap`. */
static uint64_t slots_below(uint64_t cap) {
    uint64_t slots = 0;
    for (uint32_t e = 0; e < SEARCH_EXPERTS; e++)
        slots += search_loads[e] <= cap ? 1 : (search_loads[e] + cap - 1) / cap;
    return slots;
}

TEST(no_counts_give_a_smaller_largest_share) {
    for (uint32_t kind = 0; kind < LOADS_KINDS; kind++) {
        struct balance_state state = search_open(kind, 4, 32);
        uint32_t slots = 0;
        uint64_t most =
            balance_counts_choose(&state, search_ids, SEARCH_EXPERTS, SEARCH_SLOTS, SEARCH_SLOTS);
        for (uint32_t e = 0; e < SEARCH_EXPERTS; e++) {
            assert_true(state.counts[e] > 0 && state.shares[e] <= most);
            assert_int_equal(state.shares[e], search_loads[e] / state.counts[e]);
            slots += state.counts[e];
        }
        assert_int_equal(slots, SEARCH_SLOTS);
        if (most > 0) assert_true(slots_below(most - 1) > SEARCH_SLOTS);
    }
}

TEST(nobody_gets_more_than_allowed_where_that_suffices) {
    struct balance_state state = search_open(8, 0, 32); /* nearly all load is expert 8's */
    balance_counts_choose(&state, search_ids, SEARCH_EXPERTS, SEARCH_SLOTS, 32);
    assert_int_equal(state.counts[8], 32);
    balance_counts_choose(&state, search_ids, SEARCH_EXPERTS, SEARCH_SLOTS, 1); /* too few */
    assert_int_equal(state.counts[8], SEARCH_SLOTS - SEARCH_EXPERTS + 1);
}

TEST(items_come_by_share_and_equal_ones_by_expert) {
    for (uint32_t kind = 0; kind < LOADS_KINDS; kind++) {
        struct balance_state state = search_count(kind, 4, 32);
        uint32_t left[SEARCH_EXPERTS];
        for (uint32_t e = 0; e < SEARCH_EXPERTS; e++)
            left[e] = state.counts[e];
        for (uint32_t i = 0; i < SEARCH_SLOTS; i++) {
            uint32_t expert = search_items[i], before = search_items[i ? i - 1 : 0];
            assert_true(left[expert]-- > 0);
            assert_true(state.shares[before] > state.shares[expert] ||
                        (state.shares[before] == state.shares[expert] && before <= expert));
        }
    }
}
