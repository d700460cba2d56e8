/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/pass.h"

#include "compute/model/compute.h"
#include "compute/model/moves.h"

void pass_progress(const struct pass *pass) {
    struct model *model = pass->model;
    for (uint32_t micro_batch = 0; micro_batch < model->micro_batch_count; micro_batch++)
        if (model->micro_batches[micro_batch].exchange)
            exchange_progress(model->micro_batches[micro_batch].exchange);
    moves_progress(model);
}

void pass_part(const struct pass *pass, enum stage_part part) {
    const struct model *model = pass->model;
    const struct model_trace *trace = model->trace;
    if (!trace) return;
    if (model->compute->mark && trace->took)
        model->compute->mark(pass, part);
    else if (!model->compute->mark && trace->part && part != STAGE_PART_COUNT)
        trace->part(trace->context, part);
}
