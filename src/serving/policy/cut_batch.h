/* SPDX-License-Identifier: Apache-2.0
 * Where a step is cut into micro-batches: such that all have equal work, or shares of it, as an
 * overlap schedule hides one's communication behind the others' work. A prompt is cut on a block
 * boundary if need be; a generated row stays whole.
 *
 *   work = tokens * token_work + positions attended to
 *
 * in units of one attended position, over the rows in the order in which they stand: prompt form
 * first. Pure: integers.
 */
#ifndef SERVING_POLICY_CUT_BATCH_H
#define SERVING_POLICY_CUT_BATCH_H

#include "contract/step_plan.h"

struct cut_batch {
    struct step_cut cuts[OVERLAP_LANES - 1]; /* [lane_count - 1]; row = row_count: no such lane */
    uint64_t before[OVERLAP_LANES - 1];      /* work of all micro-batches before the cut */
    uint64_t work;                           /* of all */
};

/* `shares`: [lane_count], NULL: all alike. `token_work`: what a token costs besides its attention,
 * in attended positions. */
struct cut_batch cut_batch_by_work(const struct step_plan *plan, uint32_t lane_count,
                                   const uint8_t *shares, uint64_t token_work);

#endif
