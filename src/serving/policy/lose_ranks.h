/* SPDX-License-Identifier: Apache-2.0
 * Ranks have died, and the experts in their slots with them: the least change of a layer's map that
 * leaves every expert a slot on a living rank. Where each has one already, dead slots become empty
 * and nothing is read. An expert without one comes to an empty slot, or takes the place of a replica;
 * the ranks that read fewest get the next one. How good the map is for the load comes later, from
 * the balancer.
 */
#ifndef SERVING_POLICY_LOSE_RANKS_H
#define SERVING_POLICY_LOSE_RANKS_H

#include "serving/policy/rebalance.h"

/* lost[ranks]; from and to_out [ranks * slots_per_rank] with a rank's slots behind each other; the
 * living ranks have slots enough (rebalance_fits). Scratch: copies[experts], reads[ranks]. Returns
 * how many experts have to be read anew. */
uint32_t lose_ranks(const struct rebalance_shape *shape, const bool *lost, const uint32_t *from,
                    uint32_t *copies, uint32_t *reads, uint32_t *to_out);

#endif
