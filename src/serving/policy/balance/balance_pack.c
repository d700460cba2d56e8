/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance_pack.h"

#include <string.h>

#include "base/check.h"
#include "base/number.h"

static void set_slot(struct balance_state *state, uint32_t slot, uint32_t expert) {
    state->experts[slot] = (uint16_t)expert;
    state->slot_shares[slot] = state->shares[expert];
}

void balance_pack_fill(struct balance_state *state, struct balance_span span,
                       const uint16_t *items) {
    /* max-heap of ~(load, rank): the first key is the least loaded rank */
    uint64_t *heap = state->keys;
    uint32_t open = span.rank_count;
    for (uint32_t i = 0; i < span.rank_count; i++) {
        heap[i] = ~(uint64_t)i;
        state->list[i] = 0; /* number of items there */
        state->rank_loads[span.first_rank + i] = 0;
    }
    for (uint32_t left = span.rank_count * state->room; left > 0; left--) {
        uint32_t expert = *items++, rank = (uint32_t)(~heap[0] & 0xFFFF);
        uint64_t *load = &state->rank_loads[span.first_rank + rank];
        uint32_t slot = (span.first_rank + rank) * state->room + state->list[rank];
        set_slot(state, slot, expert);
        *load += state->shares[expert];
        state->list[rank]++;
        heap[0] = state->list[rank] < state->room ? ~(*load << 16 | rank) : heap[--open];
        balance_state_sink(heap, open, 0);
    }
}

static void swap_slots(struct balance_state *state, uint32_t a, uint32_t b) {
    uint32_t expert = state->experts[a];
    uint64_t difference = state->slot_shares[a] - state->slot_shares[b]; /* wraps around and back */
    state->rank_loads[a / state->room] -= difference;
    state->rank_loads[b / state->room] += difference;
    set_slot(state, a, state->experts[b]);
    set_slot(state, b, expert);
}

/* True if neither rank would hold an expert twice. */
static bool may_swap(const struct balance_state *state, uint32_t a, uint32_t b) {
    uint32_t of_a = state->experts[a], of_b = state->experts[b];
    if (of_a == of_b) return false;
    if (state->counts[of_a] > 1 && balance_state_rank_holds(state, b / state->room, of_a))
        return false;
    return state->counts[of_b] == 1 || !balance_state_rank_holds(state, a / state->room, of_b);
}

/* True if an earlier slot of its rank holds the same expert. */
static bool is_duplicate(const struct balance_state *state, uint32_t slot) {
    if (state->counts[state->experts[slot]] == 1) return false;
    for (uint32_t at = slot / state->room * state->room; at < slot; at++)
        if (state->experts[at] == state->experts[slot]) return true;
    return false;
}

/* Exchanges a duplicate for the item that leaves the two ranks least loaded, with neither above
 * `limit`. */
static void part_duplicate(struct balance_state *state, struct balance_span span, uint32_t slot,
                           uint64_t limit) {
    uint32_t first = span.first_rank * state->room, best = slot;
    uint64_t best_load = limit + 1;
    for (uint32_t other = first; other < first + span.rank_count * state->room; other++) {
        uint64_t difference = state->slot_shares[slot] - state->slot_shares[other];
        uint64_t load = max_u64(state->rank_loads[slot / state->room] - difference,
                                state->rank_loads[other / state->room] + difference);
        if (other / state->room == slot / state->room || load >= best_load) continue;
        if (!may_swap(state, slot, other)) continue;
        best = other;
        best_load = load;
    }
    if (best != slot) swap_slots(state, slot, best);
}

void balance_pack_spread(struct balance_state *state, struct balance_span span) {
    uint32_t first = span.first_rank * state->room;
    uint64_t limit = state->rank_loads[balance_state_busiest(state, span)];
    for (uint32_t slot = first; slot < first + span.rank_count * state->room; slot++)
        if (is_duplicate(state, slot)) part_duplicate(state, span, slot, limit);
}

struct slot_swap {
    uint32_t from, to; /* slots */
    uint64_t load;     /* load of the busier of the two ranks afterwards */
};

/* Finds the best swap between the busy rank and another one; updates *best if it is better. */
static void look_for_swap(const struct balance_state *state, uint32_t busy, uint32_t other,
                          struct slot_swap *best) {
    uint64_t high = state->rank_loads[busy], low = state->rank_loads[other];
    uint32_t from = busy * state->room, to = other * state->room;
    if (high <= low + 1 || (high + low + 1) / 2 >= best->load) return;
    /* swaps with share differences in [least, least + width] leave both ranks below best->load */
    uint64_t least = high - best->load + 1, width = 2 * best->load - high - low - 1;
    for (uint32_t i = from; i < from + state->room; i++) {
        uint64_t base = state->slot_shares[i] - least;
        for (uint32_t j = to; j < to + state->room; j++) {
            if (base - state->slot_shares[j] >= width || !may_swap(state, i, j)) continue;
            uint64_t difference = base - state->slot_shares[j] + least;
            *best = (struct slot_swap){i, j, max_u64(high - difference, low + difference)};
            least = high - best->load + 1;
            width = 2 * best->load - high - low - 1;
            base = state->slot_shares[i] - least;
        }
    }
}

/* Tries the least loaded rank of the span first, and the others only if that does not suffice. */
static void look_in_span(const struct balance_state *state, struct balance_span span, uint32_t busy,
                         uint64_t good, struct slot_swap *best) {
    uint32_t idle = span.first_rank, end = span.first_rank + span.rank_count;
    for (uint32_t rank = idle + 1; rank < end; rank++)
        if (state->rank_loads[rank] < state->rank_loads[idle]) idle = rank;
    if (idle == busy) return;
    look_for_swap(state, busy, idle, best);
    for (uint32_t rank = span.first_rank; rank < end && best->load > good; rank++)
        if (rank != busy && rank != idle) look_for_swap(state, busy, rank, best);
}

static struct balance_span balance_pack_node_of(const struct balance_search *search,
                                                uint32_t rank) {
    uint32_t first = rank - (rank - search->span.first_rank) % search->near_ranks;
    return (struct balance_span){first, search->near_ranks};
}

void balance_pack_refine(struct balance_state *state, const struct balance_search *search) {
    check(search->near_ranks > 0 && search->span.rank_count % search->near_ranks == 0);
    for (uint32_t steps = 0; steps < search->steps_max; steps++) {
        uint32_t busy = balance_state_busiest(state, search->span);
        uint64_t load = state->rank_loads[busy];
        struct slot_swap swap = {0, 0, load};
        if (load <= search->target) return;
        if (search->near_ranks < search->span.rank_count)
            look_in_span(state, balance_pack_node_of(search, busy), busy, search->target, &swap);
        if (swap.load > search->target)
            look_in_span(state, search->span, busy, search->target + (load - search->target) / 2,
                         &swap);
        if (swap.load == load) return;
        swap_slots(state, swap.from, swap.to);
    }
}
