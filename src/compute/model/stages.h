/* SPDX-License-Identifier: Apache-2.0
 * Runs a step's layers stage by stage, in the order of its schedule (contract/overlap.h).
 */
#pragma once

#include "compute/model/pass.h"

/* Cuts the step's batch into the micro-batches of the plan's schedule. */
void stages_set_micro_batches(struct model *model, const struct step_plan *plan);
/* A number for the sequence of calls through the layers, for steps of generated tokens only. Steps
 * with the same number call the same functions for the same micro-batches. The order of calls is
 * the same within each micro-batch and, without an exchange between ranks, across all of them. 0:
 * the sequence may vary, because there are prompt tokens, a trace, a probe, or loads to wait
 * for. */
uint32_t stages_number(const struct model *model, const struct step_plan *plan,
                       const struct model_probe *probe);
/* Runs all layers. If `probe` is not NULL, it gets its row's choices of experts. */
void stages_run(struct model *model, const struct step_plan *plan, const struct model_probe *probe);
/* Runs one layer alone, without micro-batches. */
void stages_run_layer(const struct pass *pass);

/* Reports to the follower that the plan's KV rows are written in slices 0..slices-1. */
void stages_report(struct model *model, const struct step_plan *plan, uint32_t slices);
/* Reports the slices of all layers, one after the other. */
void stages_report_all(struct model *model, const struct step_plan *plan);
