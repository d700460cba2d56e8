/* SPDX-License-Identifier: Apache-2.0
 * A pass: one layer's run over a batch. It is the argument of every stage, and has the functions by
 * which a stage reports progress.
 */
#pragma once

#include "compute/model/model_state.h"

struct pass {
    struct model *model;
    struct scratch *scratch; /* memory of this batch's stages */
    struct exchange *exchange;
    const struct batch *batch;
    uint32_t early; /* leading generated tokens for which attention_begin runs the core attention */
    uint32_t layer; /* also the slice in KV blocks; an MTP layer comes after the others */
};

/* Reports that `part` is done. Its time counts from the stage's previous part, or its begin. */
void pass_part(const struct pass *pass, enum stage_part part);

static inline bool pass_is_moe(const struct pass *pass) {
    return shape_layer_is_moe(pass->model->shape, pass->layer);
}

/* Advances all micro-batches' communication and moving experts. Called between matrix products. */
void pass_progress(const struct pass *pass);
