/* SPDX-License-Identifier: Apache-2.0
 * Plans the next step: pages for growing answers (interrupting other requests if there are none
 * left), the row of each request, and which requests start. Writes the plan as a RUN_STEP.
 */
#pragma once

#include "serving/unit/state.h"

/* The size of the largest plan in bytes. */
size_t plan_bytes_max(const struct unit_options *options);

/* True if the next plan would send constraints, with rows or ahead of them. */
bool plan_brings_constraints(const struct unit *unit);

/* Puts a RUN_STEP if any request has a row, or waits for its constraint or mask. No step may be in
 * flight, and the outbox must have space. */
void plan_step(struct unit *unit, int64_t now_ns);
