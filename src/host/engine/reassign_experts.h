/* SPDX-License-Identifier: Apache-2.0
 * After ranks have died: the smallest change of a layer's map that gives every expert a slot on a
 * living rank. If each still has one, dead slots become empty and nothing is read. Otherwise an
 * expert gets an empty slot or replaces a replica, on the ranks with the fewest reads first. The
 * balancer later improves the map for the load.
 */
#pragma once

#include "serving/policy/balance/rebalance.h"

/* lost[ranks]; from and to_out [ranks * slots_per_rank], with a rank's slots contiguous. The living
 * ranks have enough slots (rebalance_fits). Scratch: copies[experts], reads[ranks]. Returns how
 * many experts have to be read again. */
uint32_t reassign_experts(const struct rebalance_shape *shape, const bool *lost,
                          const uint32_t *from, uint32_t *copies, uint32_t *reads,
                          uint32_t *to_out);
