/* SPDX-License-Identifier: Apache-2.0
 * What the machine defines, each in one wrapper with two bodies: PTX for nvcc (sm_90a, a Hopper
 * GPU), the emulator for g++. Kernels call nothing else that is special, so that the text that runs
 * on a GPU is the text that the emulator checks. Verified by emulation; not yet run on a GPU.
 *
 * The language of kernels (docs/gpu.md): C with references to arrays, templates over integers and
 * `auto`-free declarations; no exceptions, no virtual functions, no library. A kernel's plain
 * loads and stores are plain C: the compiler's hooks show them to the emulator.
 *
 * Terms: a warp has 32 threads, a warpgroup four warps, a block up to 1,024 threads. Memory: shared
 * belongs to a block, global to the device. The asynchronous proxy is how TMA and wgmma see memory.
 */
#pragma once

#include "compute/kernels/constants.h"
#include "compute/kernels/cuda/gpu_wgmma.cuh"
#include "compute/kernels/cuda/gpu_words.cuh"

#ifndef __CUDACC__
#include "base/number.h"
#endif

#define GPU_WARP 32u
#define GPU_WARPGROUP 128u
#define GPU_PROCESSORS 132u /* of an H100 or H800 (SXM): a grid that stays has one block on each */

/* ---- who is it, and where ---- */

GPU_DEVICE uint32_t gpu_thread(void) {
#ifdef __CUDACC__
    return threadIdx.x;
#else
    return emulate_thread();
#endif
}

GPU_DEVICE uint32_t gpu_block(void) {
#ifdef __CUDACC__
    return blockIdx.x;
#else
    return emulate_block();
#endif
}

GPU_DEVICE uint32_t gpu_block_y(void) {
#ifdef __CUDACC__
    return blockIdx.y;
#else
    return emulate_block_y();
#endif
}

/* Blocks side by side. */
GPU_DEVICE uint32_t gpu_grid(void) {
#ifdef __CUDACC__
    return gridDim.x;
#else
    return emulate_grid();
#endif
}

/* The block's shared memory, as many bytes as its launch says; aligned to 1,024. */
GPU_DEVICE char *gpu_shared(void) {
#ifdef __CUDACC__
    extern __shared__ __align__(1024) char gpu_shared_bytes[];
    return gpu_shared_bytes;
#else
    return (char *)emulate_shared();
#endif
}

/* The address in shared memory, for PTX and descriptors. */
GPU_DEVICE uint32_t gpu_shared_address(const void *at GPU_AT) {
#ifdef __CUDACC__
    return (uint32_t)__cvta_generic_to_shared(at);
#else
    return emulate_shared_address(at, GPU_PLACE);
#endif
}

/* ---- together ---- */

/* All threads of the block; orders their memory. */
GPU_DEVICE void gpu_sync(GPU_AT_ONLY) {
#ifdef __CUDACC__
    __syncthreads();
#else
    emulate_block_barrier(0, 0, GPU_PLACE);
#endif
}

/* `threads` of the block, whole warps, at barrier `id` (1-15). */
GPU_DEVICE void gpu_sync_some(uint32_t id, uint32_t threads GPU_AT) {
#ifdef __CUDACC__
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#else
    emulate_block_barrier(id, threads, GPU_PLACE);
#endif
}

/* The warp; orders its memory. */
GPU_DEVICE void gpu_sync_warp(GPU_AT_ONLY) {
#ifdef __CUDACC__
    __syncwarp();
#else
    emulate_warp_barrier(GPU_PLACE);
#endif
}

/* The value of another lane of the warp. Orders no memory. */
GPU_DEVICE uint32_t gpu_lane_value(uint32_t value, uint32_t lane GPU_AT) {
#ifdef __CUDACC__
    return __shfl_sync(0xFFFFFFFFu, value, (int)lane);
#else
    return emulate_shuffle(value, lane, GPU_PLACE);
#endif
}

/* Bit i: whether lane i of the warp says so. */
GPU_DEVICE uint32_t gpu_vote(bool value GPU_AT) {
#ifdef __CUDACC__
    return __ballot_sync(0xFFFFFFFFu, value);
#else
    return emulate_vote(value, GPU_PLACE);
#endif
}

/* Adds atomically to a word of shared memory; returns the old value. Orders no other memory. Sums
 * of integers only: they are the same in any order. */
GPU_DEVICE uint32_t gpu_add(uint32_t *at, uint32_t value GPU_AT) {
#ifdef __CUDACC__
    uint32_t before;
    asm volatile("atom.relaxed.cta.shared::cta.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "r"(gpu_shared_address(at)), "r"(value)
                 : "memory");
    return before;
#else
    return emulate_add(at, value, GPU_PLACE);
#endif
}

/* The warpgroup gives up registers, or takes more: COUNT each thread has from now on. */
template <int COUNT> GPU_DEVICE void gpu_registers_give(GPU_AT_ONLY) {
#ifdef __CUDACC__
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
#else
    emulate_set_registers(COUNT, false, GPU_PLACE);
#endif
}
template <int COUNT> GPU_DEVICE void gpu_registers_take(GPU_AT_ONLY) {
#ifdef __CUDACC__
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
#else
    emulate_set_registers(COUNT, true, GPU_PLACE);
#endif
}

/* ---- barriers in shared memory: count arrivals, and bytes that TMA brings; have phases ---- */

/* Each phase ends with `count` arrivals and all expected bytes. By one thread, before others are
 * let in by gpu_barriers_ready and gpu_sync. */
GPU_DEVICE void gpu_barrier_init(uint64_t *barrier, uint32_t count GPU_AT) {
#ifdef __CUDACC__
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(gpu_shared_address(barrier)),
                 "r"(count)
                 : "memory");
#else
    emulate_barrier_init(barrier, count, GPU_PLACE);
#endif
}

/* TMA, too, sees this thread's barriers as initialised. */
GPU_DEVICE void gpu_barriers_ready(void) {
#ifdef __CUDACC__
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#else
    emulate_fence_barrier_init();
#endif
}

GPU_DEVICE void gpu_barrier_arrive(uint64_t *barrier GPU_AT) {
#ifdef __CUDACC__
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(gpu_shared_address(barrier))
                 : "memory");
#else
    emulate_barrier_arrive(barrier, 0, GPU_PLACE);
#endif
}

/* Arrives, and lets the phase wait for so many bytes more. */
GPU_DEVICE void gpu_barrier_expect(uint64_t *barrier, uint32_t bytes GPU_AT) {
#ifdef __CUDACC__
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(gpu_shared_address(barrier)),
        "r"(bytes)
        : "memory");
#else
    emulate_barrier_arrive(barrier, bytes, GPU_PLACE);
#endif
}

/* Until the phase of this parity (0, 1, 0, ...) is over; before the first, 1 counts as over. */
GPU_DEVICE void gpu_barrier_wait(uint64_t *barrier, uint32_t parity GPU_AT) {
#ifdef __CUDACC__
    asm volatile("{\n.reg .pred p;\n"
                 "again:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra done;\nbra again;\ndone:\n}" ::"r"(gpu_shared_address(barrier)),
                 "r"(parity)
                 : "memory");
#else
    emulate_barrier_wait(barrier, parity, GPU_PLACE);
#endif
}

/* Makes plain writes of this thread visible to TMA and wgmma after the next barrier. */
GPU_DEVICE void gpu_fence_async(void) {
#ifdef __CUDACC__
    asm volatile("fence.proxy.async;" ::: "memory");
#else
    emulate_fence_proxy();
#endif
}

/* ---- copies to shared memory ---- */

/* TMA: the map's box at these coordinates (innermost first), counted by the barrier. By one thread.
 * */
GPU_DEVICE void gpu_load_box(void *to, const struct tensor_map *map, uint64_t *barrier, int32_t x,
                             int32_t y GPU_AT) {
#ifdef __CUDACC__
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4}], [%2];" ::"r"(gpu_shared_address(to)),
                 "l"(map), "r"(gpu_shared_address(barrier)), "r"(x), "r"(y)
                 : "memory");
#else
    int32_t at[] = {x, y};
    emulate_tma_load(to, map, barrier, at, 2, GPU_PLACE);
#endif
}

GPU_DEVICE void gpu_load_box(void *to, const struct tensor_map *map, uint64_t *barrier, int32_t x,
                             int32_t y, int32_t z GPU_AT) {
#ifdef __CUDACC__
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(gpu_shared_address(to)),
                 "l"(map), "r"(gpu_shared_address(barrier)), "r"(x), "r"(y), "r"(z)
                 : "memory");
#else
    int32_t at[] = {x, y, z};
    emulate_tma_load(to, map, barrier, at, 3, GPU_PLACE);
#endif
}

GPU_DEVICE void gpu_load_box(void *to, const struct tensor_map *map, uint64_t *barrier, int32_t x,
                             int32_t y, int32_t z, int32_t w GPU_AT) {
#ifdef __CUDACC__
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(gpu_shared_address(to)),
                 "l"(map), "r"(gpu_shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
#else
    int32_t at[] = {x, y, z, w};
    emulate_tma_load(to, map, barrier, at, 4, GPU_PLACE);
#endif
}

/* Fetches a map's description ahead. */
GPU_DEVICE void gpu_prefetch_map(const struct tensor_map *map) {
#ifdef __CUDACC__
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#else
    (void)map;
#endif
}

/* cp.async: 16 bytes, of which the first `bytes` come from `from`, the others are zeros. */
GPU_DEVICE void gpu_copy16(void *to, const void *from, uint32_t bytes GPU_AT) {
#ifdef __CUDACC__
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(gpu_shared_address(to)),
                 "l"(from), "r"(bytes)
                 : "memory");
#else
    emulate_copy16(to, from, bytes, GPU_PLACE);
#endif
}

/* Ends a group of this thread's copies. */
GPU_DEVICE void gpu_copies_commit(void) {
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    emulate_copy_commit();
#endif
}

/* Until all but the last LEFT groups of this thread are there. */
template <int LEFT> GPU_DEVICE void gpu_copies_wait(void) {
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#else
    emulate_copy_wait(LEFT);
#endif
}

/* ---- plain memory, wide ---- */

struct gpu_words {
    alignas(16) uint32_t word[4];
};
struct gpu_pair {
    alignas(8) float value[2];
};

/* 16 bytes at once: the address is a multiple of 16. */
GPU_DEVICE struct gpu_words gpu_load16(const void *from GPU_AT) {
#ifndef __CUDACC__
    emulate_aligned(from, 16, GPU_PLACE);
#endif
    return *(const struct gpu_words *)from;
}
GPU_DEVICE void gpu_store16(void *to, struct gpu_words words GPU_AT) {
#ifndef __CUDACC__
    emulate_aligned(to, 16, GPU_PLACE);
#endif
    *(struct gpu_words *)to = words;
}
/* Two floats at once: the address is a multiple of 8. */
GPU_DEVICE void gpu_store_pair(float *to, float a, float b GPU_AT) {
#ifndef __CUDACC__
    emulate_aligned(to, 8, GPU_PLACE);
#endif
    struct gpu_pair pair = {{a, b}};
    *(struct gpu_pair *)to = pair;
}

/* ---- wgmma ---- */

/* gpu_wgmma_e4m3, gpu_wgmma_bf16: gpu_wgmma.cuh. A thread's part of d (64 x N): d[i] is row 16w +
 * g, 8 further for each odd pair, and column 8 (i / 4) + 2t + i % 2, where w is the warp in its
 * warpgroup, g = lane / 4, t = lane % 4. A fence stands before the first, a commit behind the last
 * of a group; until the wait neither d nor the operands may be touched. */

/* An operand K-major in shared memory, in rows of 128 bytes swizzled by TMA, 8 rows an atom. The
 * next 32 bytes of k: the address 32 further. PTX ISA, "Matrix descriptor". */
GPU_DEVICE uint64_t gpu_operand(uint32_t shared_address) {
    return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 16 |
           (shared_address & 0x3FFFF) >> 4;
}
/* MN-major (BF16): rows of k of 64 channels; `further`: bytes from 64 channels to the next 64. The
 * next 16 of k: the address 2,048 further. */
GPU_DEVICE uint64_t gpu_operand_transposed(uint32_t shared_address, uint32_t further) {
    return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)(further >> 4) << 16 |
           (shared_address & 0x3FFFF) >> 4;
}

GPU_DEVICE void gpu_wgmma_fence(void) {
#ifdef __CUDACC__
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#else
    emulate_wgmma_fence();
#endif
}

GPU_DEVICE void gpu_wgmma_commit(void) {
#ifdef __CUDACC__
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#else
    emulate_wgmma_commit();
#endif
}

/* Until all but the last LEFT groups are done. */
template <int LEFT> GPU_DEVICE void gpu_wgmma_wait(GPU_AT_ONLY) {
#ifdef __CUDACC__
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
#else
    emulate_wgmma_wait(LEFT, GPU_PLACE);
#endif
}

/* The compiler moves no use of d across: before the fence and behind the wait. */
template <int COUNT> GPU_DEVICE void gpu_pin(float (&d)[COUNT]) {
#ifdef __CUDACC__
    GPU_UNROLL
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+f"(d[i])::"memory");
#else
    (void)d;
#endif
}

/* ---- numbers: the twins' arithmetic, bit for bit (nvcc runs with -fmad=false) ---- */

GPU_DEVICE float gpu_fma(float a, float b, float c) {
#ifdef __CUDACC__
    return __fmaf_rn(a, b, c);
#else
    return fmaf(a, b, c);
#endif
}

GPU_DEVICE float gpu_divide(float a, float b) {
#ifdef __CUDACC__
    return __fdiv_rn(a, b);
#else
    return a / b;
#endif
}

GPU_DEVICE float gpu_root(float a) {
#ifdef __CUDACC__
    return __fsqrt_rn(a);
#else
    return sqrtf(a);
#endif
}

GPU_DEVICE uint32_t gpu_bits(float value) {
#ifdef __CUDACC__
    return __float_as_uint(value);
#else
    return float_bits(value);
#endif
}

GPU_DEVICE float gpu_float(uint32_t bits) {
#ifdef __CUDACC__
    return __uint_as_float(bits);
#else
    return float_from_bits(bits);
#endif
}

/* 2^x, roughly (2 ulp): attention's softmax alone. */
GPU_DEVICE float gpu_power2(float x) {
#ifdef __CUDACC__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

GPU_DEVICE float gpu_from_bf16(uint16_t bits) {
    return gpu_float((uint32_t)bits << 16);
}

/* Rounded to nearest, ties to even; a pair: `low` in the lower half. */
GPU_DEVICE uint16_t gpu_to_bf16(float value) {
#ifdef __CUDACC__
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    return bf16_from_float(value);
#endif
}
GPU_DEVICE uint32_t gpu_to_bf16_pair(float low, float high) {
#ifdef __CUDACC__
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return (uint32_t)bf16_from_float(high) << 16 | bf16_from_float(low);
#endif
}

/* Two E4M3 codes, `low` in the lower byte: to nearest, ties to even, 448 beyond 448. */
GPU_DEVICE uint16_t gpu_to_e4m3_pair(float low, float high) {
#ifdef __CUDACC__
    uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return (uint16_t)(e4m3_from_float(high) << 8 | e4m3_from_float(low));
#endif
}

GPU_DEVICE float gpu_absolute(float x) {
    return gpu_float(gpu_bits(x) & 0x7FFFFFFFu);
}

/* kernels_exp of compute/kernels/vector_c.c. */
GPU_DEVICE float gpu_exp(float x) {
    if (x < EXP_LOWEST) return 0;
    if (x > EXP_HIGHEST) return gpu_float(0x7F800000u);
    if (x != x) return x;
    float n = gpu_fma(x, EXP_LOG2E, EXP_ROUNDER) - EXP_ROUNDER;
    float r = gpu_fma(n, -EXP_LN2_LOW, gpu_fma(n, -EXP_LN2_HIGH, x));
    float p = gpu_fma(EXP_C7, r, EXP_C6);
    p = gpu_fma(p, r, EXP_C5);
    p = gpu_fma(p, r, EXP_C4);
    p = gpu_fma(p, r, EXP_C3);
    p = gpu_fma(p, r, 0.5f);
    p = gpu_fma(p, r, 1.0f);
    p = gpu_fma(p, r, 1.0f);
    int32_t power = (int32_t)n, half = power >> 1;
    return p * gpu_float((uint32_t)(half + 127) << 23) *
           gpu_float((uint32_t)(power - half + 127) << 23);
}

/* ---- launching ---- */

struct gpu_shape {
    uint32_t grid_x, grid_y, threads;
    size_t shared_bytes;
};

/* Enqueues a launch on the stream (NULL: the default one). The stream reports errors. */
template <typename... P, typename... A>
static inline void gpu_launch(const char *name, void (*kernel)(P...), struct gpu_shape shape,
                              void *stream, A... arguments) {
#ifdef __CUDACC__
    (void)name;
    if (shape.shared_bytes > 48 << 10)
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)shape.shared_bytes);
    kernel<<<dim3(shape.grid_x, shape.grid_y), shape.threads, shape.shared_bytes,
             (cudaStream_t)stream>>>(arguments...);
#else
    auto call = [=] { kernel(arguments...); };
    struct emulate_launch launch = {
        name,
        shape.grid_x,
        shape.grid_y,
        shape.threads,
        shape.shared_bytes,
        [](const void *closure) { (*(const decltype(call) *)closure)(); }};
    emulate_launch(&launch, &call, sizeof call, stream);
#endif
}
