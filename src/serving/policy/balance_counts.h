/* SPDX-License-Identifier: Apache-2.0
 * How many replicas each expert gets, before anybody asks where they live.
 *
 * Slot after slot goes to the expert with the largest share at that time. That is the rule of
 * DeepSeek's load balancer, and it gives the smallest largest share that so many slots can give: a
 * cap c is reached exactly when every expert has at least ceil(load / c) replicas, and the rule
 * never gives an expert one more while another is above the cap.
 */
#ifndef SERVING_POLICY_BALANCE_COUNTS_H
#define SERVING_POLICY_BALANCE_COUNTS_H

#include "serving/policy/balance_state.h"

/* Gives `slot_count` slots to the experts in ids[id_count], at least one each, at most `most_each`
 * where that suffices. Sets their counts and shares; returns the largest share. */
uint64_t balance_counts_choose(struct balance_state *state, const uint16_t *ids, uint32_t id_count,
                               uint32_t slot_count, uint32_t most_each);

/* The replicas of those experts in descending order of share, equal shares by ascending id, into
 * items_out[sum of their counts]. */
void balance_counts_list(const struct balance_state *state, const uint16_t *ids, uint32_t id_count,
                         uint16_t *items_out);

#endif
