/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/emulated/compute_emulated.h"

#include "compute/emulated/device_emulated.h"
#include "compute/emulated/gpu_reference.h"
#include "compute/model/model.h"
#include "compute/model/model_state.h"

enum status compute_emulated_open(struct model *model, const struct model_options *options,
                                  const struct gpu_kernels *kernels, struct error *error) {
    struct device_emulation emulation = {.seed = options->device_seed + options->rank,
                                         .memory_bytes = UINT64_MAX / 2,
                                         .watch = kernels->watch};
    enum status status = compute_gpu_take_kernels(model, options, kernels, error);
    return status ? status : device_emulated_open(&emulation, &model->device, error);
}

static enum status open_emulated(struct model *model, const struct model_options *options,
                                 struct error *error) {
    return compute_emulated_open(
        model, options, options->device_kernels ? options->device_kernels : &gpu_reference, error);
}

const struct model_device model_on_emulated = {"emulated", &compute_on_gpu, open_emulated};
