/* SPDX-License-Identifier: Apache-2.0
 * Behind compute.h, for all sets of its functions: a layer's weights, and how its linears want their
 * inputs.
 */
#pragma once

#include "compute/model/linear.h"
#include "compute/model/pass.h"

/* The weights of the pass's layer. */
static inline const struct layer_weights *compute_weights(const struct pass *pass) {
    const struct weights *weights = &pass->model->weights;
    bool mtp = pass->layer == pass->model->shape->layers;
    return mtp ? &weights->mtp->block : &weights->layers[pass->layer];
}

/* How a linear that takes no ue8m0 scales wants its input. */
static inline enum input_kind compute_kind(const struct model *model,
                                           const struct packed_matrix *weights) {
    return linear_input_kind(model->activations, weights->type, false);
}

/* The same where they are used, if the checkpoint asks for them: q_a, kv_a and the routed experts. */
static inline enum input_kind compute_kind_ue8m0(const struct model *model, enum weight_type type) {
    return linear_input_kind(model->activations, type, model->shape->activation_scale_ue8m0);
}
