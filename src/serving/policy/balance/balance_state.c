/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance_state.h"

#include <string.h>

#include "base/check.h"

size_t balance_state_bytes(uint32_t expert_count, uint32_t slot_count, uint32_t rank_count) {
    return round_up_8(expert_count * sizeof(uint16_t)) + expert_count * sizeof(uint64_t) +
           2 * round_up_8(slot_count * sizeof(uint16_t)) + 3 * slot_count * sizeof(uint64_t) +
           rank_count * sizeof(uint64_t);
}

uint64_t balance_state_scale(const uint64_t *loads, uint32_t count, uint64_t *scaled_out) {
    uint64_t total = 0, scaled_total = 0;
    for (uint32_t i = 0; i < count; i++) {
        check(total <= UINT64_MAX - loads[i]);
        total += loads[i];
    }
    int bits = total ? 64 - __builtin_clzll(total) : 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t load = bits > BALANCE_LOAD_BITS ? loads[i] >> (bits - BALANCE_LOAD_BITS)
                                                 : loads[i] << (BALANCE_LOAD_BITS - bits);
        scaled_out[i] = total ? load : (uint64_t)1 << 30;
        scaled_total += scaled_out[i];
    }
    return scaled_total;
}

void balance_state_open(struct balance_state *state, uint32_t expert_count, uint32_t slot_count,
                        uint32_t rank_count, const uint64_t *loads, void *memory) {
    char *at = memory;
    check(expert_count > 0 && expert_count <= slot_count && slot_count < 0xFFFF);
    check(rank_count > 0 && slot_count % rank_count == 0);
    *state = (struct balance_state){.expert_count = expert_count,
                                    .slot_count = slot_count,
                                    .rank_count = rank_count,
                                    .room = slot_count / rank_count,
                                    .loads = loads};
    state->shares = balance_state_cut(&at, expert_count * sizeof *state->shares);
    state->slot_shares = balance_state_cut(&at, slot_count * sizeof *state->slot_shares);
    state->rank_loads = balance_state_cut(&at, rank_count * sizeof *state->rank_loads);
    state->keys = balance_state_cut(&at, slot_count * sizeof *state->keys);
    state->other_keys = balance_state_cut(&at, slot_count * sizeof *state->other_keys);
    state->counts = balance_state_cut(&at, expert_count * sizeof *state->counts);
    state->experts = balance_state_cut(&at, slot_count * sizeof *state->experts);
    state->list = balance_state_cut(&at, slot_count * sizeof *state->list);
}

void balance_state_recount(struct balance_state *state) {
    memset(state->counts, 0, state->expert_count * sizeof *state->counts);
    for (uint32_t slot = 0; slot < state->slot_count; slot++) {
        check(state->experts[slot] < state->expert_count);
        state->counts[state->experts[slot]]++;
    }
    for (uint32_t e = 0; e < state->expert_count; e++) {
        check(state->counts[e] > 0);
        state->shares[e] =
            state->counts[e] == 1 ? state->loads[e] : state->loads[e] / state->counts[e];
    }
    const uint16_t *expert = state->experts;
    uint64_t *share = state->slot_shares;
    for (uint32_t rank = 0; rank < state->rank_count; rank++) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < state->room; i++)
            sum += *share++ = state->shares[*expert++];
        state->rank_loads[rank] = sum;
    }
}

void balance_state_copy(struct balance_state *to, const struct balance_state *from) {
    check(to->expert_count == from->expert_count && to->slot_count == from->slot_count);
    check(to->rank_count == from->rank_count);
    memcpy(to->counts, from->counts, from->expert_count * sizeof *to->counts);
    memcpy(to->shares, from->shares, from->expert_count * sizeof *to->shares);
    memcpy(to->experts, from->experts, from->slot_count * sizeof *to->experts);
    memcpy(to->slot_shares, from->slot_shares, from->slot_count * sizeof *to->slot_shares);
    memcpy(to->rank_loads, from->rank_loads, from->rank_count * sizeof *to->rank_loads);
}

bool balance_state_rank_holds(const struct balance_state *state, uint32_t rank, uint32_t expert) {
    const uint16_t *held = state->experts + (size_t)rank * state->room;
    for (uint32_t i = 0; i < state->room; i++)
        if (held[i] == expert) return true;
    return false;
}

uint32_t balance_state_busiest(const struct balance_state *state, struct balance_span span) {
    uint32_t busiest = span.first_rank;
    uint64_t most = state->rank_loads[busiest];
    for (uint32_t rank = busiest + 1; rank < span.first_rank + span.rank_count; rank++) {
        bool more = state->rank_loads[rank] > most;
        most = more ? state->rank_loads[rank] : most;
        busiest = more ? rank : busiest;
    }
    return busiest;
}

/* Merges two descending runs. No branch depends on the keys, because their order is
 * unpredictable. */
static void balance_state_merge(const uint64_t *left, const uint64_t *left_end,
                                const uint64_t *right, const uint64_t *right_end, uint64_t *out) {
    while (left < left_end && right < right_end) {
        uint64_t a = *left, b = *right;
        bool first = a >= b;
        *out++ = first ? a : b;
        left += first;
        right += !first;
    }
    while (left < left_end)
        *out++ = *left++;
    while (right < right_end)
        *out++ = *right++;
}

void balance_state_sort(uint64_t *keys, uint64_t *other, uint32_t count) {
    uint64_t *from = keys, *to = other;
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t start = 0; start < count; start += 2 * width) {
            uint32_t middle = start + width < count ? start + width : count;
            uint32_t end = start + 2 * width < count ? start + 2 * width : count;
            balance_state_merge(from + start, from + middle, from + middle, from + end, to + start);
        }
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != keys) memcpy(keys, from, count * sizeof *keys);
}

void balance_state_sink(uint64_t *heap, uint32_t count, uint32_t at) {
    uint64_t key = heap[at];
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1] > heap[child]) child++;
        if (heap[child] <= key) break;
        heap[at] = heap[child];
    }
    heap[at] = key;
}
