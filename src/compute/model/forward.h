/* SPDX-License-Identifier: Apache-2.0
 * The forward pass of a step: from a plan to logits.
 */
#pragma once

#include "base/status.h"
#include "compute/model/listeners.h"
#include "contract/step_plan.h"

struct model;

/* Runs the plan: KV pages written, logits computed. `logits`: the rows' wanted logits behind each
 * other in plan order, each [vocab] floats, a row's drafts' behind its own; room for the sum of
 * logits_count and draft_count rows. A row has none if the model draws its tokens
 * (model_want_draws). Deterministic and batch invariant. STATUS_INVALID if the plan breaks a rule
 * (that is the caller's bug, but it may come from another process).
 *
 * A plan may have no rows: among ranks, all ranks step together, and a rank without tokens still
 * computes for the others (a plan that one rank refuses would leave the others waiting: see
 * compute/model/plan_check.h). */
enum status forward_run(struct model *model, const struct step_plan *plan, float *logits,
                        const struct model_probe *probe, struct error *error);
