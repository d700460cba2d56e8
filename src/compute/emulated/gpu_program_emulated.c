/* SPDX-License-Identifier: Apache-2.0
 * The devices of the tests' program `fathom-emulated`.
 */
#include "compute/emulated/compute_emulated.h"
#include "compute/gpu/gpu_kernels.h"
#include "compute/gpu/gpu_program.h"

#ifdef GPU_KERNELS_EMULATED
static enum status open_emulated_kernels(struct model *model, const struct model_options *options,
                                         struct error *error) {
    return compute_emulated_open(model, options, &gpu_hopper, error);
}

static const struct model_device model_on_emulated_kernels = {"emulated-kernels", &compute_on_gpu,
                                                              open_emulated_kernels};
#endif

const struct gpu_offer gpu_program = {.emulated = {
                                          &model_on_emulated,
#ifdef GPU_KERNELS_EMULATED
                                          &model_on_emulated_kernels,
#endif
                                      }};
