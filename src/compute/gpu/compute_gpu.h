/* SPDX-License-Identifier: Apache-2.0
 * The devices of a program in addition to the CPU. One implementation of compute.h enqueues a
 * step's kernels on a GPU, or in tests on an emulated device (compute/emulated). Verified by
 * emulation; not yet run on a GPU.
 */
#pragma once

#include "compute/model/compute.h"

struct gpu_kernels; /* compute/gpu/gpu_kernels.h */

extern const struct compute compute_on_gpu;

/* Uses model_options.device_kernels, or else the kernels that the program offers. */
extern const struct model_device model_on_cuda;

/* The devices of a program in addition to the CPU. Its main passes them here before any other call.
 */
struct gpu_offer {
    const struct gpu_kernels *cuda;         /* "cuda": kernels compiled by nvcc; NULL: none */
    const struct model_device *emulated[2]; /* for tests; NULL: none */
};
void compute_gpu_offer(const struct gpu_offer *offer);

/* Finds a device by name. STATUS_INVALID: the program has no such device; the error lists its
 * devices. */
enum status compute_gpu_find(const char *name, const struct model_device **device_out,
                             struct error *error) MUST_USE;

/* Checks that the device can be used. Errors of compute_gpu_find; STATUS_UNSUPPORTED: the program
 * has no kernels for GPUs, or there is no GPU. The error says what is missing, and the cure. */
enum status compute_gpu_check(const char *name, struct error *error) MUST_USE;

/* For a device's open: sets the model's kernels. STATUS_UNSUPPORTED: one is missing. */
enum status compute_gpu_take_kernels(struct model *model, const struct model_options *options,
                                     const struct gpu_kernels *kernels,
                                     struct error *error) MUST_USE;
