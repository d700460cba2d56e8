/* SPDX-License-Identifier: Apache-2.0
 * Chooses the number of replicas of each expert, independent of their placement (expert-parallel
 * load balancing).
 *
 * Each slot in turn goes to the expert with the largest load per replica (its share) at that time.
 * This is the rule of DeepSeek's load balancer, and it minimizes the largest share for that number
 * of slots. Proof: a cap c is met exactly if every expert has at least ceil(load / c) replicas. As
 * long as any expert is above the cap, the rule never gives a replica to an expert that is not.
 */
#pragma once

#include "serving/policy/balance/balance_state.h"

/* Distributes `slot_count` slots to the experts in ids[id_count]. Each gets at least one, and at
 * most `most_each` if that uses up the slots. Sets their counts and shares, and returns the largest
 * share. */
uint64_t balance_counts_choose(struct balance_state *state, const uint16_t *ids, uint32_t id_count,
                               uint32_t slot_count, uint32_t most_each);

/* Lists the replicas of those experts by descending share, then ascending id, in items_out[sum of
 * their counts]. */
void balance_counts_list(const struct balance_state *state, const uint16_t *ids, uint32_t id_count,
                         uint16_t *items_out);
