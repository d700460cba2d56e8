/* SPDX-License-Identifier: Apache-2.0
 * For tests of the balancers' parts: a layer's state with drawn loads, before anything is placed.
 */
#pragma once

#include "balance_loads.h"
#include "serving/policy/balance/balance_counts.h"
#include "test_case.h"

enum { SEARCH_EXPERTS = 256, SEARCH_SLOTS = 288 };

static uint64_t search_loads[SEARCH_EXPERTS];
static uint16_t search_ids[SEARCH_EXPERTS], search_items[SEARCH_SLOTS];

/* 256 experts in 288 slots on so many ranks; the state before is overwritten. */
static inline struct balance_state search_open(uint32_t kind, uint64_t seed, uint32_t ranks) {
    static uint64_t memory[2048];
    uint64_t drawn[SEARCH_EXPERTS];
    struct balance_state state;
    assert_true(balance_state_bytes(SEARCH_EXPERTS, SEARCH_SLOTS, ranks) <= sizeof memory);
    loads_draw(kind, seed, SEARCH_EXPERTS, drawn);
    balance_state_scale(drawn, SEARCH_EXPERTS, search_loads);
    balance_state_open(&state, SEARCH_EXPERTS, SEARCH_SLOTS, ranks, search_loads, memory);
    for (uint32_t i = 0; i < SEARCH_EXPERTS; i++)
        search_ids[i] = (uint16_t)i;
    return state;
}

/* Counts and shares, and the items that have them, are chosen, too. */
static inline struct balance_state search_count(uint32_t kind, uint64_t seed, uint32_t ranks) {
    struct balance_state state = search_open(kind, seed, ranks);
    balance_counts_choose(&state, search_ids, SEARCH_EXPERTS, SEARCH_SLOTS, ranks);
    balance_counts_list(&state, search_ids, SEARCH_EXPERTS, search_items);
    return state;
}

/* What the state says of its ranks is what its slots imply. */
static inline void search_assert_true(struct balance_state *state) {
    uint64_t loads[SEARCH_SLOTS];
    memcpy(loads, state->rank_loads, state->rank_count * sizeof *loads);
    balance_state_recount(state);
    assert_memory_equal(loads, state->rank_loads, state->rank_count * sizeof *loads);
}
