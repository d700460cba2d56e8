/* SPDX-License-Identifier: Apache-2.0
 * Cuts a step into micro-batches with equal work, or given shares of it, because an overlap
 * schedule hides the communication of one behind the computation of the others. A prompt may be cut
 * at a block boundary; a generated row is never cut.
 *
 *   work = tokens * token_work + positions attended to
 *
 * in units of one attended position, over the rows in the order of the plan: expanded tokens first.
 * Pure: integers.
 */
#pragma once

#include "contract/step_plan.h"

struct cut_batch {
    struct step_cut
        cuts[OVERLAP_MICRO_BATCHES - 1];        /* [micro_batch_count - 1]; row = row_count: no such
                                              * micro-batch */
    uint64_t before[OVERLAP_MICRO_BATCHES - 1]; /* work of all micro-batches before the cut */
    uint64_t work;                              /* of all */
};

/* `shares`: [micro_batch_count]; NULL: equal shares. `token_work`: cost of a token without its
 * attention, in attended positions. */
struct cut_batch cut_batch_by_work(const struct step_plan *plan, uint32_t micro_batch_count,
                                   const uint8_t *shares, uint64_t token_work);
