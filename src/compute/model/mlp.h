/* SPDX-License-Identifier: Apache-2.0
 * A dense layer's MLP on the CPU (compute/model/compute.h).
 */
#pragma once

#include "compute/model/pass.h"

void mlp_run(const struct pass *pass);
