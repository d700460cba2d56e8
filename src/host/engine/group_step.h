/* SPDX-License-Identifier: Apache-2.0
 * The plans and results of one step of a group of ranks: which plans can run together, what a rank
 * runs instead of an invalid plan, and what becomes of a plan that did not run, or that ran while a
 * rank died. It decides only. host/engine/rank_group.c sends plans and gathers results.
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "contract/step_plan.h"

/* The plan without rows that ranks with invalid plans run, so that the others do not wait for them.
 * It has what all plans of the step share: rank 0's `awaits`, and the first valid schedule. */
struct step_plan group_step_none(const struct step_plan *const *plans, uint32_t count);

/* STATUS_INVALID: the plan cannot run in one step with `none`. A rank with another schedule, or one
 * that does not compute, would never meet the others in an exchange. */
enum status group_step_check(const struct step_plan *none, const struct step_plan *plan,
                             struct error *error) MUST_USE;

/* The result of a plan that did not run: no row has an effect. */
void group_step_fail(const struct step_plan *plan, struct step_result *result);

/* The result of a rank's plan from the rank's report, of at most the result's size. No report, or
 * one of another plan: the plan did not run. */
void group_step_take(const struct step_plan *plan, struct bytes report, struct step_result *result);

/* The result of a plan in a step in which a rank died. The rows of a dead rank fail, and those of a
 * living rank are lost: they must be scheduled again. */
void group_step_break(const struct step_plan *plan, bool lives, struct step_result *result);

/* Sets the compute time of all results, [count]: rank 0's step time without the longest wait for
 * loads. Rank 0 computes its layers in step with the others, so its time includes waits on any
 * rank. Rows on several ranks wait at the same time for the same layers of loads that began
 * together, so the longest wait is what loads added to the step. If they wait for different layers,
 * or if a waiting rank would have been ahead of the others, the true value differs a little. The
 * unit averages this cost, and few steps wait. */
void group_step_set_times(struct step_result *const *results, uint32_t count, int64_t rank_0_ns);
