/* SPDX-License-Identifier: Apache-2.0
 * Validates a step plan against a model's limits, so that no index leaves its array: a plan may
 * come from another process. Only whole plans are valid (contract/slot_pages.h).
 */
#pragma once

#include "base/status.h"
#include "contract/step_plan.h"

struct model;

/* STATUS_INVALID if forward_run would refuse the plan. The error names step, row and limit. The
 * result is the same on all ranks. */
enum status plan_check(const struct model *model, const struct step_plan *plan,
                       struct error *error) MUST_USE;
