/* SPDX-License-Identifier: Apache-2.0
 * The forward pass of a step, from its plan to logits.
 */
#pragma once

#include "base/status.h"
#include "compute/model/listeners.h"
#include "contract/step_plan.h"

struct model;

/* Runs the plan: writes KV pages and computes logits. `logits` receives the logits that the rows
 * request, [vocab] floats for each token, in plan order. Those of a row's drafts follow the row's
 * own. It needs space for the sum of logits_count and draft_count of all rows. Rows from which the
 * model samples by itself (model_want_draws) have no logits here. The results are deterministic and
 * batch invariant. `probe` may be NULL. Returns STATUS_INVALID if the plan breaks a rule: a bug of
 * the caller, but the plan may come from another process.
 *
 * A plan may have no rows. The ranks of a unit step together, and a rank without tokens of its own
 * still computes its experts for the tokens of the others. If one rank refused its plan, the others
 * would wait for it (see compute/model/plan_check.h). */
enum status forward_run(struct model *model, const struct step_plan *plan, float *logits,
                        const struct model_probe *probe, struct error *error);
