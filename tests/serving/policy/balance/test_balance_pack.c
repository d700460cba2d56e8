/* SPDX-License-Identifier: Apache-2.0
 * Protects where replicas go: heaviest first to the least loaded rank with room; from there the
 * largest load never grows, and duplicates part where that costs nothing.
 */
#include "balance_searches.h"
#include "serving/policy/balance/balance_pack.h"

enum { RANKS = 32 };

static const struct balance_span all = {0, RANKS};

/* Every item goes to a rank that is no busier than any other with room. */
TEST(items_go_to_the_least_loaded_rank_with_room) {
    struct balance_state state = search_count(2, 1, RANKS);
    uint64_t loads[RANKS] = {0};
    uint32_t held[RANKS] = {0};
    balance_pack_fill(&state, all, search_items);
    for (uint32_t i = 0; i < SEARCH_SLOTS; i++) {
        uint32_t least = RANKS;
        for (uint32_t rank = 0; rank < RANKS; rank++)
            if (held[rank] < state.room && (least == RANKS || loads[rank] < loads[least]))
                least = rank;
        assert_int_equal(state.experts[least * state.room + held[least]], search_items[i]);
        held[least]++;
        loads[least] += state.shares[search_items[i]];
    }
    search_assert_true(&state);
}

static uint32_t count_duplicates(const struct balance_state *state) {
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < SEARCH_SLOTS; slot++)
        for (uint32_t at = slot / state->room * state->room; at < slot; at++)
            count += state->experts[at] == state->experts[slot];
    return count;
}

TEST(duplicates_part_without_a_larger_largest_load) {
    struct balance_state state = search_count(8, 1, RANKS);
    for (uint32_t i = 0; i < SEARCH_SLOTS; i++) /* all replicas of the busy one side by side */
        state.experts[i] = search_items[i];
    balance_state_recount(&state);
    uint64_t most = balance_state_max(&state);
    assert_true(count_duplicates(&state) > 0);
    balance_pack_spread(&state, all);
    assert_int_equal(count_duplicates(&state), 0);
    assert_true(balance_state_max(&state) <= most);
    search_assert_true(&state);
}

TEST(a_search_lowers_the_largest_load_towards_its_target) {
    for (uint32_t kind = 0; kind < LOADS_KINDS; kind++) {
        struct balance_state state = search_count(kind, 2, RANKS);
        struct balance_search search = {all, 8, 0, 1};
        balance_pack_fill(&state, all, search_items);
        uint64_t first = balance_state_max(&state), sum = 0;
        for (uint32_t rank = 0; rank < RANKS; rank++)
            sum += state.rank_loads[rank];
        for (uint32_t step = 0; step < 300; step++) {
            uint64_t before = balance_state_max(&state);
            balance_pack_refine(&state, &search);
            assert_true(balance_state_max(&state) <= before);
        }
        search_assert_true(&state);
        if (kind < LOADS_DRAWN) assert_true(balance_state_max(&state) < sum / RANKS * 101 / 100);
        search.target = first; /* good enough already */
        uint16_t experts[SEARCH_SLOTS];
        memcpy(experts, state.experts, sizeof experts);
        balance_pack_refine(&state, &search);
        assert_memory_equal(experts, state.experts, sizeof experts);
    }
}
