/* SPDX-License-Identifier: Apache-2.0
 * One layer's run over a batch: what every stage of it is given, and how it says that it goes on.
 */
#ifndef COMPUTE_MODEL_PASS_H
#define COMPUTE_MODEL_PASS_H

#include "compute/model/model_state.h"

struct pass {
    struct model *model;
    struct scratch *scratch; /* where this batch's stages work */
    struct exchange *exchange;
    const struct batch *batch;
    const struct layer_weights *layer;
    uint32_t slice; /* of the KV blocks */
};

/* Says that `part` was done since the stage's last part, or since its begin. */
static inline void pass_part(const struct pass *pass, enum stage_part part) {
    const struct model_trace *trace = pass->model->trace;
    if (trace && trace->part) trace->part(trace->context, part);
}

/* Lets all lanes' communication, and experts on their way, move on: between two products. */
void pass_progress(const struct pass *pass);

#endif
