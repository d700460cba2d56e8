/* SPDX-License-Identifier: Apache-2.0
 * Computes a new expert placement that moves few experts. It tries two methods, and returns the
 * result with fewer moves:
 *
 * - Repair: the search of balance_experts starts from the old placement and ends when the largest
 *   load is within the tolerance of the best placement's. It may fail. It wins if ranks have many
 *   slots: without it 8 to 11 times as many experts move at 32 ranks.
 * - Rename: the best placement for the new loads, with its ranks renamed so that most of their
 *   experts are already in place. If ranks have two slots, pairs of experts stay together as long
 *   as the others can be paired within the tolerance. It wins in that case: at 144 ranks 2 to 18
 *   times as many experts move without renaming, and 1.5 to 13 times without keeping pairs. In
 *   other cases it is tried only if the repair fails. BALANCE_STRICT renames nodes, and then the
 *   ranks of each, since no group may leave its node.
 *
 * A move is a slot that has to load another expert's weights.
 */
#pragma once

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
