/* SPDX-License-Identifier: Apache-2.0
 * Expert placement for two slots per rank (EP144 with 288 slots). Packing is then trivial, but the
 * numbers of replicas matter.
 *
 * For given counts of replicas, the best pairing puts the heaviest replica with the lightest, the
 * second heaviest with the second lightest, and so on. The search is therefore over the counts.
 * Ranks stay below a load T exactly if, for every t up to T / 2, there are at least as many
 * replicas of share <= t as of share > T - t: each of the latter needs one of the former as its
 * partner (Hall's condition for this nested graph). The search tracks the lack of partners at 64
 * values of t. It moves a replica from one expert to another whenever that reduces the total lack.
 * T is bisected between the best load so far and the bound. A search 20 to 200 times as long gains
 * 1.7 % of balance on one kind of load and less than 0.5 % on six (docs/performance/balance.md).
 */
#pragma once

#include "serving/policy/balance/balance_state.h"

/* Starts from the counts of the state, which sum to its slots. Leaves a placement with a largest
 * load that is not above that of these counts. order[expert_count]: experts by descending load.
 * `target`: a lower bound of the largest load. */
void balance_pairs_place(struct balance_state *state, const uint16_t *order, uint64_t target);
