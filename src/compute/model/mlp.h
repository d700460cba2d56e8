/* SPDX-License-Identifier: Apache-2.0
 * A dense layer's MLP; part of the seam (compute/model/compute.h).
 */
#ifndef COMPUTE_MODEL_MLP_H
#define COMPUTE_MODEL_MLP_H

#include "compute/model/pass.h"

/* Reads x; leaves what is to be added to it. */
void mlp_run(const struct pass *pass);

#endif
