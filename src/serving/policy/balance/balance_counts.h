/* SPDX-License-Identifier: Apache-2.0
 * Chooses the number of each expert's replicas, independent of their placement.
 *
 * Each slot in turn goes to the expert with the largest share at that time. This is the rule of
 * DeepSeek's load balancer, and it minimizes the largest share for that many slots. Proof: a cap c
 * is met exactly if every expert has at least ceil(load / c) replicas, and the rule never gives an
 * expert another one while any expert is above the cap.
 */
#pragma once

#include "serving/policy/balance/balance_state.h"

/* Distributes `slot_count` slots to the experts in ids[id_count], at least one each, and at most
 * `most_each` if that suffices. Sets their counts and shares; returns the largest share. */
uint64_t balance_counts_choose(struct balance_state *state, const uint16_t *ids, uint32_t id_count,
                               uint32_t slot_count, uint32_t most_each);

/* Lists the replicas of those experts by descending share, then ascending id, in items_out[sum of
 * their counts]. */
void balance_counts_list(const struct balance_state *state, const uint16_t *ids, uint32_t id_count,
                         uint16_t *items_out);
