/* SPDX-License-Identifier: Apache-2.0
 * Protects two slots a rank: the search never leaves a largest load above that of the counts that
 * it began with, paired as well as can be.
 */
#include "balance_searches.h"
#include "serving/policy/balance/balance_pairs.h"

enum { RANKS = SEARCH_SLOTS / 2 };

/* The heaviest beside the lightest, and so on. */
static uint64_t largest_pair(const struct balance_state *state) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < RANKS; i++) {
        uint64_t load =
            state->shares[search_items[i]] + state->shares[search_items[SEARCH_SLOTS - 1 - i]];
        if (load > most) most = load;
    }
    return most;
}

TEST(a_search_is_no_worse_than_its_beginning) {
    for (uint32_t kind = 0; kind < LOADS_KINDS; kind++) {
        struct balance_state state = search_count(kind, 3, RANKS);
        uint16_t order[SEARCH_EXPERTS];
        uint64_t begin = largest_pair(&state), sum = 0;
        for (uint32_t e = 0; e < SEARCH_EXPERTS; e++) {
            state.keys[e] = balance_state_key(search_loads[e], e);
            sum += search_loads[e];
        }
        balance_state_sort(state.keys, state.other_keys, SEARCH_EXPERTS);
        for (uint32_t e = 0; e < SEARCH_EXPERTS; e++)
            order[e] = (uint16_t)balance_state_key_id(state.keys[e]);
        balance_pairs_place(&state, order, sum / RANKS);
        search_assert_true(&state);
        assert_true(balance_state_max(&state) <= begin);
    }
}
