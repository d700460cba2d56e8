/* SPDX-License-Identifier: Apache-2.0
 * Checks a step plan against a model's limits: everything that an index could break, as a plan may
 * come from another process. Only whole plans pass (contract/slot_pages.h).
 */
#pragma once

#include "base/status.h"
#include "contract/step_plan.h"

struct model;

/* STATUS_INVALID, naming step, row and limit, for what forward_run would refuse; the same on all
 * ranks. */
enum status plan_check(const struct model *model, const struct step_plan *plan,
                       struct error *error) MUST_USE;
