/* SPDX-License-Identifier: Apache-2.0
 * Puts a schedule into a step plan before it runs: which one, and where the step is cut into its
 * two micro-batches. The serving plane plans rows; how an engine computes them is decided here.
 */
#ifndef HOST_LANES_H
#define HOST_LANES_H

#include "contract/step_plan.h"
#include "model/shape.h"

void lanes_cut(struct step_plan *plan, enum overlap_kind overlap, const struct shape *shape);

#endif
