/* SPDX-License-Identifier: Apache-2.0
 * A Hopper GPU's block of threads on a CPU, for the very source that nvcc compiles. Threads are
 * fibers; wherever one waits, the next is drawn by seed. Asynchronous copies arrive late, by seed.
 * Every plain access of a kernel comes here through the compiler's thread sanitizer hooks
 * (emulate_memory.c) and is checked: bounds, alignment, values never written, data on its way,
 * and races, by vector clocks: between threads of a block in shared and global memory, and
 * between blocks, which nothing orders within a launch.
 *
 * The functions below stand behind the wrappers of compute/kernels/cuda/gpu.cuh, one for each; what
 * an operation means is said there. `file` and `line` are where the kernel calls.
 *
 * What this cannot see: how the machine reorders memory, its tensor cores' exact rounding, a
 * wrapper with PTX that means something else, and time. One launch at a time, one host thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMULATE_THREADS_MAX 1024
#define EMULATE_SHARED_MAX 232448 /* bytes that a block of Hopper may have */
#define EMULATE_SHARED_BASE 1024  /* a block's first shared address */

/* ---- for launches ---- */

enum emulate_check {
    EMULATE_RACE,       /* two threads, or two blocks, and nothing orders them */
    EMULATE_BOUNDS,     /* memory that is not the kernel's */
    EMULATE_ALIGNMENT,  /* address, pitch or size */
    EMULATE_UNSET,      /* shared memory is read that was never written */
    EMULATE_PENDING,    /* memory is touched while a copy to it is on its way */
    EMULATE_PROXY,      /* fence.proxy.async is missing */
    EMULATE_BARRIER,    /* misuse of a barrier: counts, bytes, its memory */
    EMULATE_DIVERGENCE, /* threads that must act together do different things */
    EMULATE_REGISTERS,  /* registers of a wgmma are touched before its end, or without a fence */
    EMULATE_DESCRIPTOR, /* a descriptor or a map that the machine would not take */
    EMULATE_DEADLOCK,   /* all that is left waits */
    EMULATE_LEFT,       /* a block ended with copies, products or arrivals on their way */
    EMULATE_CHECK_COUNT
};

struct emulate_report {
    bool made;
    enum emulate_check check;
    char text[600]; /* kernel, block, thread, place, what was touched */
};

const char *emulate_check_name(enum emulate_check check);

/* Schedules of the launches to come. */
void emulate_seed(uint64_t seed);
/* The first thing found goes to `report` and ends its launch; without one it is printed, and the
 * process aborts. */
void emulate_collect(struct emulate_report *report);

/* A device's memory that kernels may touch; reports name it. Ranges do not overlap. */
void emulate_memory_add(const void *base, size_t bytes, const char *name);
void emulate_memory_drop(const void *base);

/* Takes a launch where there are streams: `run(job)` when its turn comes, then `free(job)`. Without
 * it launches run at once. */
typedef void emulate_stream_put(void *stream, void (*run)(void *job), void *job);
void emulate_streams(emulate_stream_put *put);

/* How wgmma sums products of E4M3: with so many fraction bits of the largest (Hopper is reported to
 * keep 13), or 0: exactly, in floats. */
void emulate_e4m3_bits(uint32_t bits);

/* ---- for gpu.cuh ---- */

struct emulate_launch {
    const char *kernel;
    uint32_t grid_x, grid_y, threads;
    size_t shared_bytes;
    void (*run)(const void *closure); /* a thread's life */
};
/* Copies the closure; the launch runs on the stream. */
void emulate_launch(const struct emulate_launch *launch, const void *closure, size_t bytes,
                    void *stream);

uint32_t emulate_thread(void);
uint32_t emulate_block(void);
uint32_t emulate_block_y(void);
uint32_t emulate_grid(void);
void *emulate_shared(void);
uint32_t emulate_shared_address(const void *at, const char *file, int line);
/* Reports unless `bytes` can lie at the address in one access. */
void emulate_aligned(const void *at, uint32_t bytes, const char *file, int line);

void emulate_block_barrier(uint32_t id, uint32_t threads, const char *file, int line);
void emulate_warp_barrier(const char *file, int line);
uint32_t emulate_shuffle(uint32_t value, uint32_t from_lane, const char *file, int line);
uint32_t emulate_vote(bool value, const char *file, int line);
uint32_t emulate_add(uint32_t *at, uint32_t value, const char *file, int line);
void emulate_set_registers(uint32_t count, bool more, const char *file, int line);

void emulate_fence_proxy(void);
void emulate_fence_barrier_init(void);

void emulate_copy16(void *to, const void *from, uint32_t bytes, const char *file, int line);
void emulate_copy_commit(void);
void emulate_copy_wait(uint32_t left);

void emulate_barrier_init(uint64_t *at, uint32_t count, const char *file, int line);
void emulate_barrier_arrive(uint64_t *at, uint32_t bytes, const char *file, int line);
void emulate_barrier_wait(uint64_t *at, uint32_t parity, const char *file, int line);

#define EMULATE_MAP_DIMENSIONS 5

/* A tensor map (128 bytes at most): boxes of a tensor of up to five dimensions, the innermost
 * first. `pitch[i]`: bytes from one index of dimension i + 1 to the next. */
struct emulate_map {
    uint64_t mark; /* EMULATE_MAP_MARK */
    const void *base;
    uint32_t size[EMULATE_MAP_DIMENSIONS];
    uint32_t box[EMULATE_MAP_DIMENSIONS];
    uint64_t pitch[EMULATE_MAP_DIMENSIONS - 1];
    uint16_t element_bytes, dimensions;
    bool swizzle; /* by 128 bytes */
};
#define EMULATE_MAP_MARK 0x70616d726f736e65u

void emulate_tma_load(void *to, const void *map, uint64_t *barrier_of, const int32_t *at,
                      uint32_t dimensions, const char *file, int line);

enum emulate_type { EMULATE_BF16, EMULATE_E4M3 };

/* One wgmma, 64 x n x (32 bytes of k). `a_registers`: A's fragment, or NULL: a_descriptor. */
struct emulate_wgmma {
    enum emulate_type type;
    uint32_t n;
    const uint32_t *a_registers;
    uint64_t a_descriptor, b_descriptor;
    bool b_transposed; /* MN-major */
    bool accumulate;
};
void emulate_wgmma(float *d, const struct emulate_wgmma *form, const char *file, int line);
void emulate_wgmma_fence(void);
void emulate_wgmma_commit(void);
void emulate_wgmma_wait(uint32_t left, const char *file, int line);

#ifdef __cplusplus
}
#endif
