/* SPDX-License-Identifier: Apache-2.0
 * Where a step is cut into two micro-batches: such that both have equal attention work, as an
 * overlap schedule hides one's communication behind the other's work. A prompt is cut on a block
 * boundary if need be; a generated row stays whole.
 *
 *   work = tokens * token_work + positions attended to
 *
 * in units of one attended position, over the rows in the order in which they stand: prompt form
 * first. Pure: integers.
 */
#ifndef POLICY_CUT_BATCH_H
#define POLICY_CUT_BATCH_H

#include "contract/step_plan.h"

struct cut_batch {
    uint32_t row, token;       /* step_plan.cut_row, cut_token; row = row_count: no second lane */
    uint64_t first_work, work; /* of the first micro-batch, of both */
};

/* `token_work`: what a token costs besides its attention, in attended positions. */
struct cut_batch cut_batch_evenly(const struct step_plan *plan, uint64_t token_work);

#endif
