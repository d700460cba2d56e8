/* SPDX-License-Identifier: Apache-2.0
 * A new placement that moves few experts. Two ways are tried, and the one with fewer moves wins:
 *
 * - The old placement, repaired: the same search as ever starts from it and ends as soon as the
 *   largest load is within the tolerance of the best placement's. It may not get there. This is the
 *   way where ranks have many slots: without it 8 to 11 times as many experts move at 32 ranks.
 * - The best placement for the new loads, its ranks renamed so that they hold as much as possible
 *   of what they hold already. Where ranks have two slots, pairs that may stay together do, as long
 *   as the rest can be paired within the tolerance. This is the way there: at 144 ranks 2 to 18
 *   times as many experts move without the names, and 1.5 to 13 times without the pairs. Elsewhere
 *   it is tried only if the repair fails. BALANCE_STRICT names nodes, and then the ranks of each,
 *   since no group may leave its node.
 *
 * A move is a slot that has to load another expert's weights.
 */
#ifndef SERVING_POLICY_BALANCE_KEEP_H
#define SERVING_POLICY_BALANCE_KEEP_H

#include "serving/policy/balance_experts.h"

struct balance_keeping {
    const uint16_t *old; /* [slots]; every expert has a slot */
    double tolerance;    /* >= 0: the largest load may exceed the best found by this fraction */
};

/* Bytes of memory that one call needs, aligned to 8. */
size_t balance_keep_bytes(const struct balance_shape *shape);

/* As balance_experts; the number of slots that differ from the old ones goes to *moves_out. */
void balance_keep(const struct balance_shape *shape, const struct balance_options *options,
                  const uint64_t *loads, const struct balance_keeping *keeping, void *memory,
                  uint16_t *slot_to_expert_out, struct balance_outcome *outcome_out,
                  uint32_t *moves_out);

#endif
