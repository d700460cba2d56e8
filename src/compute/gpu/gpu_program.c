/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/gpu/gpu_program.h"

#include "compute/gpu/compute_gpu.h"
#include "compute/gpu/gpu_kernels.h"

void gpu_program_offer(void) {
    struct gpu_offer offer = {.stand_in = false};
#if defined GPU_KERNELS_CUDA || defined GPU_KERNELS_EMULATED
    static struct gpu_kernels kernels;
    kernels = gpu_hopper();
#endif
#ifdef GPU_KERNELS_CUDA
    offer.cuda = &kernels;
#elif defined GPU_KERNELS_EMULATED
    offer.emulated = &kernels;
#endif
#ifdef GPU_STAND_IN
    offer.stand_in = true;
#endif
    compute_gpu_offer(&offer);
}
