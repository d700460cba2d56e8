/* SPDX-License-Identifier: Apache-2.0
 * A model on the emulated device, for tests: the engine's part for GPUs (compute/gpu) without a
 * GPU. Tests and the program `fathom-emulated` link this folder; the product does not.
 */
#pragma once

#include "compute/gpu/compute_gpu.h"

/* "emulated": opens with model_options.device_kernels, or else with gpu_reference. */
extern const struct model_device model_on_emulated;

/* Opens the emulated device for a model that computes with `kernels`. */
enum status compute_emulated_open(struct model *model, const struct model_options *options,
                                  const struct gpu_kernels *kernels, struct error *error) MUST_USE;
