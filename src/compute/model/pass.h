/* SPDX-License-Identifier: Apache-2.0
 * One layer's run over a batch: what every stage of it is given, and how it says that it goes on.
 */
#pragma once

#include "compute/model/model_state.h"

struct pass {
    struct model *model;
    struct scratch *scratch; /* where this batch's stages work */
    struct exchange *exchange;
    const struct batch *batch;
    uint32_t early; /* leading generated tokens for which attention_begin runs the core attention */
    uint32_t layer; /* also the slice of the KV blocks; an MTP layer stands behind the others */
};

/* Says that `part` was done since the stage's last part, or since its begin. */
void pass_part(const struct pass *pass, enum stage_part part);

static inline bool pass_is_moe(const struct pass *pass) {
    return shape_layer_is_moe(pass->model->shape, pass->layer);
}

/* Lets all micro-batches' communication, and experts on their way, move on: between two products. */
void pass_progress(const struct pass *pass);
