/* SPDX-License-Identifier: Apache-2.0
 * The step planner. It allocates pages for growing answers (and preempts requests if none are
 * left), chooses the row of each request and the requests that start, and puts the plan as a
 * RUN_STEP.
 */
#pragma once

#include "serving/unit/state.h"

/* The size of the largest plan in bytes. */
size_t plan_bytes_max(const struct unit_options *options);

/* True if the next plan would send constraints, with rows or ahead of them. */
bool plan_brings_constraints(const struct unit *unit);

/* Puts a RUN_STEP if any request has a row, or waits for its constraint or mask. The outbox must
 * have space, and no step may be in flight. */
void plan_step(struct unit *unit, int64_t now_ns);
