/* SPDX-License-Identifier: Apache-2.0
 * Helpers for all implementations of compute.h: a layer's weights, and the input formats of its
 * linears.
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

/* The input format of a linear. */
static inline enum input_kind compute_kind(const struct model *model,
                                           const struct packed_matrix *weights) {
    return linear_kind_of(model->activations, weights);
}
