/* SPDX-License-Identifier: Apache-2.0
 * A step's layers, stage by stage as its schedule says (contract/overlap.h).
 */
#pragma once

#include "compute/model/pass.h"

/* Cuts the step's batch into the micro-batches of the plan's schedule. */
void stages_set_micro_batches(struct model *model, const struct step_plan *plan);
/* Numbers the way through the layers: of the same number are those that call the same functions for
 * the same micro-batches, of generated tokens alone; for each micro-batch in the same order and,
 * where no tokens are exchanged with other ranks, for all micro-batches together. 0: who runs it
 * looks into what it leaves, or waits for loads. */
uint32_t stages_number(const struct model *model, const struct step_plan *plan,
                       const struct model_probe *probe);
/* Runs all layers; shows the probe, which may be NULL, its row's choices of experts. */
void stages_run(struct model *model, const struct step_plan *plan, const struct model_probe *probe);
/* Runs one layer alone, without micro-batches. */
void stages_run_layer(const struct pass *pass);

/* Tells the follower that the plan's KV rows are written in so many slices. */
void stages_report(struct model *model, const struct step_plan *plan, uint32_t slices);
/* The same of all layers' slices, one after the other. */
void stages_report_all(struct model *model, const struct step_plan *plan);
