/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance_counts.h"

#include "base/check.h"

uint64_t balance_counts_choose(struct balance_state *state, const uint16_t *ids, uint32_t id_count,
                               uint32_t slot_count, uint32_t most_each) {
    uint64_t *heap = state->keys, most = 0;
    uint32_t growing = id_count;
    check(id_count > 0 && id_count <= slot_count);
    if ((uint64_t)most_each * id_count < slot_count) most_each = slot_count;
    for (uint32_t i = 0; i < id_count; i++) {
        state->counts[ids[i]] = 1;
        state->shares[ids[i]] = state->loads[ids[i]];
        heap[i] = balance_state_key(state->loads[ids[i]], ids[i]);
    }
    for (uint32_t i = id_count / 2; i-- > 0;)
        balance_state_sink(heap, id_count, i);
    for (uint32_t left = slot_count - id_count; left > 0; left--) {
        uint32_t id = balance_state_key_id(heap[0]);
        while (state->counts[id] == most_each) { /* this expert keeps its count */
            heap[0] = heap[--growing];
            balance_state_sink(heap, growing, 0);
            id = balance_state_key_id(heap[0]);
        }
        state->counts[id]++;
        state->shares[id] = state->loads[id] / state->counts[id];
        heap[0] = balance_state_key(state->shares[id], id);
        balance_state_sink(heap, growing, 0);
    }
    for (uint32_t i = 0; i < id_count; i++)
        if (state->shares[ids[i]] > most) most = state->shares[ids[i]];
    return most;
}

void balance_counts_list(const struct balance_state *state, const uint16_t *ids, uint32_t id_count,
                         uint16_t *items_out) {
    for (uint32_t i = 0; i < id_count; i++)
        state->keys[i] = balance_state_key(state->shares[ids[i]], ids[i]);
    balance_state_sort(state->keys, state->other_keys, id_count);
    for (uint32_t i = 0; i < id_count; i++) {
        uint32_t id = balance_state_key_id(state->keys[i]);
        for (uint32_t left = state->counts[id]; left > 0; left--)
            *items_out++ = (uint16_t)id;
    }
}
