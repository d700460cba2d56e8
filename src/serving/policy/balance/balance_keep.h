/* SPDX-License-Identifier: Apache-2.0
 * A new placement that moves few experts. Two methods are tried, and the one with fewer moves wins:
 *
 * - Repair: the same search starts from the old placement and ends when the largest load is within
 *   the tolerance of the best placement's. It may fail. This is the method if ranks have many
 *   slots: without it 8 to 11 times as many experts move at 32 ranks.
 * - Rename: the best placement for the new loads, with its ranks renamed so that most of their
 *   experts are already in place. If ranks have two slots, pairs that may stay together do, as long
 *   as the rest can be paired within the tolerance. This is the method in that case: at 144 ranks 2
 *   to 18 times as many experts move without the names, and 1.5 to 13 times without the pairs. In
 *   other cases it is tried only if the repair fails. BALANCE_STRICT names nodes, and then the
 *   ranks of each, since no group may leave its node.
 *
 * A move is a slot that has to load another expert's weights.
 */
#ifndef SERVING_POLICY_BALANCE_BALANCE_KEEP_H
#define SERVING_POLICY_BALANCE_BALANCE_KEEP_H

#include "serving/policy/balance/balance_experts.h"

struct balance_keeping {
    const uint16_t *old; /* [slots]; every expert has a slot */
    double tolerance;    /* fraction by which the largest load may exceed the best one; >= 0 */
};

/* Bytes of memory for one call, aligned to 8. */
size_t balance_keep_bytes(const struct balance_shape *shape);

/* Like balance_experts. *moves_out is the number of slots that differ from the old placement. */
void balance_keep(const struct balance_shape *shape, const struct balance_options *options,
                  const uint64_t *loads, const struct balance_keeping *keeping, void *memory,
                  uint16_t *slot_to_expert_out, struct balance_outcome *outcome_out,
                  uint32_t *moves_out);

#endif
