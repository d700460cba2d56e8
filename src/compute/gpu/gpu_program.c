/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/gpu/gpu_program.h"

#include "compute/gpu/gpu_kernels.h"

const struct gpu_offer gpu_program = {
#ifdef GPU_KERNELS_CUDA
    .cuda = &gpu_hopper,
#else
    .cuda = NULL,
#endif
};
