/* SPDX-License-Identifier: Apache-2.0
 * Two slots a rank (EP144 with 288 slots): where packing is no question, but counts are.
 *
 * Given every expert's count, the heaviest replica beside the lightest, the second beside the
 * second lightest and so on is the best pairing there is. So the search is over counts. Ranks stay
 * below a load T exactly when, for every t up to T / 2, there are at least as many replicas of
 * share <= t as there are of share > T - t: each of the latter needs one of the former for partner
 * (Hall's condition for this nested graph). The search keeps the lack of partners at 64 values of
 * t, and moves a replica from one expert to another whenever that makes the lacks smaller; T goes
 * down by halves between the best so far and the bound. A search 20 to 200 times as long gains 1.7 %
 * of balance on one kind of load and less than 0.5 % on six (docs/performance/balance.md).
 */
#ifndef SERVING_POLICY_BALANCE_PAIRS_H
#define SERVING_POLICY_BALANCE_PAIRS_H

#include "serving/policy/balance_state.h"

/* Starts at the state's counts, which sum to its slots; leaves a placement whose largest load is at
 * most that of these counts. order[expert_count]: experts in descending order of load. `target`: no
 * load below it is possible. */
void balance_pairs_place(struct balance_state *state, const uint16_t *order, uint64_t target);

#endif
