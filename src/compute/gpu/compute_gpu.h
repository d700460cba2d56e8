/* SPDX-License-Identifier: Apache-2.0
 * Devices besides the CPU: a GPU, and a stand-in for one that runs on the CPU (compute/device/device.h).
 * One set of compute.h's functions puts a step's kernels in line on either. Verified by emulation;
 * not yet run on a GPU.
 */
#ifndef COMPUTE_GPU_COMPUTE_GPU_H
#define COMPUTE_GPU_COMPUTE_GPU_H

#include "compute/model/compute.h"

/* STATUS_UNSUPPORTED: nothing can be opened there yet. */
extern const struct model_device model_on_cuda;
extern const struct model_device model_on_emulated;

/* "cpu", "cuda" or "emulated". */
enum status compute_gpu_find(const char *name, const struct model_device **device_out,
                             struct error *error) MUST_USE;

/* Whether programs offer the stand-in; a build has it in any case, for tests. */
bool compute_gpu_offers_emulated(void);

#endif
