/* SPDX-License-Identifier: Apache-2.0
 * The words that nvcc and g++ must agree on before anything else of gpu.cuh.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "compute/kernels/cuda/tensor_map.h"

#ifdef __CUDACC__

#include <cuda_runtime.h>

#define GPU_KERNEL(threads) static __global__ void __launch_bounds__(threads, 1)
#define GPU_DEVICE static __device__ __forceinline__
#define GPU_MAP const __grid_constant__ struct tensor_map
#define GPU_UNROLL _Pragma("unroll")
#define GPU_AT
#define GPU_AT_ONLY void

#else

#include "compute/kernels/emulate/emulate.h"

#define GPU_KERNEL(threads) static void
#define GPU_DEVICE static inline
#define GPU_MAP const struct tensor_map
#define GPU_UNROLL
/* Where the kernel calls a wrapper, behind its other arguments, or alone. */
#define GPU_AT , const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define GPU_AT_ONLY const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define GPU_PLACE file, line

#endif
