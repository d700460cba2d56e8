/* SPDX-License-Identifier: Apache-2.0
 * Small kernels, each about a few wrappers of compute/kernels/cuda/gpu.cuh: with fault 0 their
 * output has a definition, any other plants a fault. Written for nvcc, too.
 */
#pragma once

#include "compute/kernels/cuda/tensor_map.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WRAPPERS_THREADS 128

/* Blocks of 128 threads: out[128 b + i] = in[128 b + 127 - i] + 1, through shared memory. */
enum memory_fault {
    MEMORY_SOUND,
    MEMORY_READS_BEYOND,
    MEMORY_WRITES_BEYOND,
    MEMORY_WRITES_AN_ARGUMENT,
    MEMORY_BEYOND_SHARED,
    MEMORY_NOT_ALIGNED,
    MEMORY_NEVER_WRITTEN,
    MEMORY_READ_TOO_EARLY,
    MEMORY_OVERWRITTEN_TOO_EARLY,
    MEMORY_TWO_WRITE,
    MEMORY_TWO_SHARE_GLOBAL,
    MEMORY_BLOCKS_WRITE,
    MEMORY_BLOCKS_READ,
    MEMORY_SHUFFLE_ORDERS_NOTHING,
    MEMORY_FAULT_COUNT
};
void wrappers_memory(void *stream, const uint32_t *in, uint32_t *out, uint32_t blocks,
                     uint32_t fault);

/* out[i] = the value of lane i ^ 5, of in; out[128 + i] = the vote whether in is odd; out[256 + i]
 * = the sum of the warp's values, by its barrier; out[384 + i]: of two warps', by a named one. */
enum together_fault {
    TOGETHER_SOUND,
    TOGETHER_DIVERGE,
    TOGETHER_ONE_IS_GONE,
    TOGETHER_COUNTS_DIFFER,
    TOGETHER_NO_SUCH_BARRIER,
    TOGETHER_FEWER_REGISTERS,
    TOGETHER_FAULT_COUNT
};
void wrappers_together(void *stream, const uint32_t *in, uint32_t *out, uint32_t fault);

/* out[w] = the sum of in[i] with i % 4 == w, by additions to shared memory; out[4 + k] = 1 for each
 * k that a thread found when all counted themselves. */
enum add_fault {
    ADD_SOUND,
    ADD_TO_UNSET,
    ADD_BEFORE_THE_WRITE,
    ADD_BEHIND_THE_READ,
    ADD_READ_TOO_EARLY,
    ADD_OVERWRITTEN,
    ADD_BEYOND,
    ADD_FAULT_COUNT
};
void wrappers_add(void *stream, const uint32_t *in, uint32_t *out, uint32_t fault);

/* cp.async: thread i copies 16 bytes of which 4 * (i % 5) come from in[4 i]; out[4 i] has what is
 * there. */
enum copy_fault {
    COPY_SOUND,
    COPY_NOT_AWAITED,
    COPY_OF_ANOTHER_THREAD,
    COPY_NOT_COMMITTED,
    COPY_NOT_ALIGNED,
    COPY_BEYOND,
    COPY_LEFT,
    COPY_FAULT_COUNT
};
void wrappers_copy(void *stream, const uint32_t *in, uint32_t *out, uint32_t fault);

/* TMA: a box of `rows` rows of 128 bytes at (x, y, z, w) of a map of so many dimensions, to out as
 * it lies in shared memory. */
enum box_fault {
    BOX_SOUND,
    BOX_NOT_AWAITED,
    BOX_AWAITED_BY_ONE,
    BOX_NOT_READY,
    BOX_NOT_EXPECTED,
    BOX_NOT_ALIGNED,
    BOX_OVER_PLAIN_WRITES,
    BOX_NO_MAP,
    BOX_LEFT,
    BOX_BARRIER_TWICE,
    BOX_BARRIER_TOUCHED,
    BOX_FAULT_COUNT
};
void wrappers_box(void *stream, const struct tensor_map *map, uint32_t dimensions,
                  const int32_t *at, uint32_t rows, uint32_t *out, uint32_t fault);

/* d[64][n] = d + a b over 128 bytes of k: a [64][128 bytes], b [n][128 bytes], or of MN-major BF16
 * [64 keys][n]; plain maps' boxes of 64 rows by 128 bytes. */
enum wgmma_form {
    FORM_E4M3,
    FORM_BF16,
    FORM_BF16_TRANSPOSED,
    FORM_REGISTERS,
    FORM_REGISTERS_TRANSPOSED,
    FORM_COUNT
};
enum wgmma_fault {
    WGMMA_SOUND,
    WGMMA_PLAIN_WRITES,
    WGMMA_TOUCHED,
    WGMMA_NO_FENCE,
    WGMMA_LEFT,
    WGMMA_NOT_ALIGNED,
    WGMMA_BEYOND,
    WGMMA_OVERWRITTEN,
    WGMMA_FAULT_COUNT
};
void wrappers_wgmma(void *stream, enum wgmma_form form, uint32_t n, const struct tensor_map *a,
                    const struct tensor_map *b, const uint16_t *a_rows, float *d, uint32_t fault);

/* out[i] of in[i]: root, 1 / x, exp, BF16, two BF16 and two codes of (x, -x), fma(x, x, 1), 2^x. */
#define WRAPPERS_NUMBERS 8
void wrappers_numbers(void *stream, const float *in, uint32_t *out, uint32_t count);

#ifdef __cplusplus
}
#endif
