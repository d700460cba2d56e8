/* SPDX-License-Identifier: Apache-2.0
 * Devices besides the CPU: a GPU, and a stand-in for one that runs on the CPU (compute/device/device.h).
 * One set of compute.h's functions puts a step's kernels in line on either. Verified by emulation;
 * not yet run on a GPU.
 */
#ifndef COMPUTE_GPU_COMPUTE_GPU_H
#define COMPUTE_GPU_COMPUTE_GPU_H

#include "compute/model/compute.h"

struct gpu_kernels; /* compute/gpu/gpu_kernels.h */

/* Each opens with model_options.device_kernels, if there are some. Else: with what the process offers
 * for CUDA; with reference bodies; with the emulated kernels that the process offers. */
extern const struct model_device model_on_cuda;
extern const struct model_device model_on_emulated;
extern const struct model_device model_on_emulated_kernels;

/* What a process offers besides the CPU: nothing, until its program says so (gpu_program.h). Tests open
 * what they like. */
struct gpu_offer {
    bool stand_in;                      /* "emulated" */
    const struct gpu_kernels *cuda;     /* "cuda": kernels of nvcc; NULL: none */
    const struct gpu_kernels *emulated; /* "emulated-kernels"; NULL: none */
};
void compute_gpu_offer(const struct gpu_offer *offer);

/* "cpu", "cuda", "emulated" or "emulated-kernels". */
enum status compute_gpu_find(const char *name, const struct model_device **device_out,
                             struct error *error) MUST_USE;

/* STATUS_UNSUPPORTED: the process does not offer a device of that name, or there is no GPU. The line
 * says what is missing, and the cure. */
enum status compute_gpu_check(const char *name, struct error *error) MUST_USE;

#endif
