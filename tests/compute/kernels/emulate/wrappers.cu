/* SPDX-License-Identifier: Apache-2.0 */
#include "wrappers.h"

#include "compute/kernels/cuda/gpu.cuh"

#define THREADS WRAPPERS_THREADS

/* ---- plain memory ---- */

GPU_KERNEL(THREADS) memory(const uint32_t *in, uint32_t *out, uint32_t *argument, uint32_t fault) {
    uint32_t *room = (uint32_t *)gpu_shared(), i = gpu_thread(), first = gpu_block() * THREADS;
    uint32_t last = gpu_block() + 1 == gpu_grid() ? 1 : 0;
    if (fault == MEMORY_WRITES_AN_ARGUMENT) *argument = 1;
    if (fault == MEMORY_BEYOND_SHARED && i == 5) room[THREADS] = 1;
    if (fault == MEMORY_NOT_ALIGNED && i == 5) *(volatile uint32_t *)((char *)room + 2) = 1;
    if (fault != MEMORY_NEVER_WRITTEN || i != 7)
        room[i] = in[first + i + (fault == MEMORY_READS_BEYOND ? last : 0)];
    if (fault == MEMORY_TWO_WRITE && i == 9) room[10] = 0;
    if (fault == MEMORY_SHUFFLE_ORDERS_NOTHING)
        gpu_lane_value(i, 0);
    else if (fault != MEMORY_READ_TOO_EARLY)
        gpu_sync();
    uint32_t value = room[THREADS - 1 - i];
    if (fault == MEMORY_OVERWRITTEN_TOO_EARLY) room[i] = value;
    if (fault == MEMORY_BLOCKS_WRITE && i == 3) out[0] = value;
    if (fault == MEMORY_BLOCKS_READ && i == 3) value += out[0];
    if (fault == MEMORY_TWO_SHARE_GLOBAL && i == 3) value += out[first + 4];
    out[first + i + (fault == MEMORY_WRITES_BEYOND ? last : 0)] = value + 1;
}

void wrappers_memory(void *stream, const uint32_t *in, uint32_t *out, uint32_t blocks,
                     uint32_t fault) {
    static uint32_t no_memory_of_the_device;
    struct gpu_shape shape = {blocks, 1, THREADS, THREADS * sizeof(uint32_t)};
    gpu_launch("memory", memory, shape, stream, in, out, &no_memory_of_the_device, fault);
}

/* ---- together ---- */

GPU_KERNEL(THREADS) together(const uint32_t *in, uint32_t *out, uint32_t fault) {
    uint32_t *room = (uint32_t *)gpu_shared(), i = gpu_thread(), lane = i % GPU_WARP;
    uint32_t warp = i / GPU_WARP;
    if (fault == TOGETHER_ONE_IS_GONE && i == 40) return;
#ifndef __CUDACC__ /* ptxas refuses it */
    if (fault == TOGETHER_FEWER_REGISTERS) gpu_registers_give<28>();
#endif
    gpu_registers_give<40>();
    if (fault == TOGETHER_DIVERGE && lane == 3)
        out[128 + i] = gpu_vote(true);
    else
        out[i] = gpu_lane_value(in[i], lane ^ 5);
    out[128 + i] = gpu_vote(in[i] % 2 != 0);
    room[i] = in[i];
    gpu_sync_warp();
    uint32_t sum = 0;
    for (uint32_t k = 0; k < GPU_WARP; k++)
        sum += room[warp * GPU_WARP + k];
    out[256 + i] = sum;
    uint32_t count = fault == TOGETHER_COUNTS_DIFFER && warp == 3 ? 96 : 64;
    gpu_sync_some(fault == TOGETHER_NO_SUCH_BARRIER ? 16 : 1 + warp / 2, count);
    for (uint32_t k = 0; k < GPU_WARP; k++)
        sum += room[(warp ^ 1) * GPU_WARP + k];
    out[384 + i] = sum;
}

void wrappers_together(void *stream, const uint32_t *in, uint32_t *out, uint32_t fault) {
    struct gpu_shape shape = {1, 1, THREADS, THREADS * sizeof(uint32_t)};
    gpu_launch("together", together, shape, stream, in, out, fault);
}

GPU_KERNEL(THREADS) add(const uint32_t *in, uint32_t *out, uint32_t fault) {
    uint32_t *room = (uint32_t *)gpu_shared(), i = gpu_thread();
    if (i < 5 && fault != ADD_TO_UNSET) room[i] = 0;
    if (fault != ADD_BEFORE_THE_WRITE) gpu_sync();
    if (fault == ADD_BEHIND_THE_READ && i == 40) out[THREADS] = room[0];
    gpu_add(fault == ADD_BEYOND ? room + 5 : room + i % 4, in[i]);
    uint32_t before = gpu_add(room + 4, 1);
    if (fault == ADD_OVERWRITTEN && i == 40) room[0] = 0;
    if (fault != ADD_READ_TOO_EARLY) gpu_sync();
    if (i < 4) out[i] = room[i];
    out[4 + before] = 1;
}

void wrappers_add(void *stream, const uint32_t *in, uint32_t *out, uint32_t fault) {
    struct gpu_shape shape = {1, 1, THREADS, 5 * sizeof(uint32_t)};
    gpu_launch("add", add, shape, stream, in, out, fault);
}

/* ---- copies ---- */

GPU_KERNEL(THREADS) copy(const uint32_t *in, uint32_t *out, uint32_t fault) {
    uint32_t *room = (uint32_t *)gpu_shared(), i = gpu_thread();
    const uint32_t *from = in + 4 * i + (fault == COPY_NOT_ALIGNED ? 1 : 0);
    if (fault == COPY_BEYOND && i == THREADS - 1) from += 4;
    gpu_copy16(room + 4 * i, from, 4 * (i % 5));
    if (fault != COPY_NOT_COMMITTED) gpu_copies_commit();
    if (fault == COPY_LEFT) return;
    if (fault != COPY_NOT_AWAITED) gpu_copies_wait<0>();
    if (fault == COPY_OF_ANOTHER_THREAD) i = i ^ 1;
    struct gpu_words words = gpu_load16(room + 4 * i);
    gpu_store16(out + 4 * i, words);
}

void wrappers_copy(void *stream, const uint32_t *in, uint32_t *out, uint32_t fault) {
    struct gpu_shape shape = {1, 1, THREADS, THREADS * 16};
    gpu_launch("copy", copy, shape, stream, in, out, fault);
}

/* ---- boxes ---- */

struct box_room {
    char box[256 * 128];
    uint64_t barrier;
};

struct box_job {
    uint32_t dimensions, rows, fault;
    int32_t at[4];
    uint32_t *out;
};

GPU_DEVICE void load(struct box_room *room, const struct tensor_map *map,
                     const struct box_job *job) {
    char *to = room->box + (job->fault == BOX_NOT_ALIGNED ? 128 : 0);
    const int32_t *at = job->at;
    if (job->dimensions == 2)
        gpu_load_box(to, map, &room->barrier, at[0], at[1]);
    else if (job->dimensions == 3)
        gpu_load_box(to, map, &room->barrier, at[0], at[1], at[2]);
    else
        gpu_load_box(to, map, &room->barrier, at[0], at[1], at[2], at[3]);
}

GPU_KERNEL(THREADS) box(GPU_MAP map, struct box_job job) {
    struct box_room *room = (struct box_room *)gpu_shared();
    uint32_t i = gpu_thread(), fault = job.fault;
    if (fault == BOX_OVER_PLAIN_WRITES) room->box[i] = 0;
    if (i == 0) {
        gpu_barrier_init(&room->barrier, 1);
        if (fault == BOX_BARRIER_TWICE) gpu_barrier_init(&room->barrier, 1);
        if (fault != BOX_NOT_READY) gpu_barriers_ready();
    }
    gpu_sync();
    if (fault == BOX_BARRIER_TOUCHED && i == 9) room->barrier = 0;
    if (i == 0) {
        gpu_prefetch_map(&map);
        if (fault == BOX_NOT_EXPECTED)
            gpu_barrier_arrive(&room->barrier);
        else
            gpu_barrier_expect(&room->barrier, job.rows * 128);
        load(room, &map, &job);
    }
    if (fault == BOX_LEFT) return;
    if (fault != BOX_NOT_AWAITED && (fault != BOX_AWAITED_BY_ONE || i == 0))
        gpu_barrier_wait(&room->barrier, 0);
    for (uint32_t k = i; k < job.rows * 32; k += THREADS)
        job.out[k] = ((uint32_t *)room->box)[k];
}

void wrappers_box(void *stream, const struct tensor_map *map, uint32_t dimensions,
                  const int32_t *at, uint32_t rows, uint32_t *out, uint32_t fault) {
    struct box_job job = {dimensions, rows, fault, {}, out};
    struct tensor_map none = {};
    struct gpu_shape shape = {1, 1, THREADS, sizeof(struct box_room)};
    for (uint32_t i = 0; i < dimensions; i++)
        job.at[i] = at[i];
    gpu_launch("box", box, shape, stream, fault == BOX_NO_MAP ? none : *map, job);
}

/* ---- products ---- */

#define PIECE (64 * 128) /* a box */

struct wgmma_room {
    char a[PIECE], b[4][PIECE];
    uint64_t barrier;
};

struct wgmma_job {
    const uint16_t *a_rows;
    float *d;
    uint32_t fault;
};

/* One product of 32 bytes of k, at byte 32 * step of the operands' rows. */
template <int N, int FORM>
GPU_DEVICE void step_of(float (&d)[N / 2], uint32_t a, uint32_t b, const uint32_t (&registers)[4],
                        uint32_t step) {
    constexpr bool transposed = FORM == FORM_BF16_TRANSPOSED || FORM == FORM_REGISTERS_TRANSPOSED;
    uint64_t of_b =
        transposed ? gpu_operand_transposed(b + step * 2048, PIECE) : gpu_operand(b + step * 32);
    if constexpr (FORM == FORM_E4M3)
        gpu_wgmma_e4m3(d, gpu_operand(a + step * 32), of_b, true);
    else if constexpr (FORM == FORM_REGISTERS || FORM == FORM_REGISTERS_TRANSPOSED)
        gpu_wgmma_bf16<transposed>(d, registers, of_b, true);
    else
        gpu_wgmma_bf16<transposed>(d, gpu_operand(a + step * 32), of_b, true);
}

/* A's fragment of a step: pairs of k of two rows. */
GPU_DEVICE void load_fragment(uint32_t (&registers)[4], const uint16_t *rows, uint32_t step) {
    uint32_t lane = gpu_thread() % GPU_WARP, row = gpu_thread() / GPU_WARP * 16 + lane / 4;
    GPU_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        const uint16_t *from = rows + (row + i % 2 * 8) * 64 + step * 16 + lane % 4 * 2 + i / 2 * 8;
        registers[i] = from[0] | (uint32_t)from[1] << 16;
    }
}

template <int N, int FORM> GPU_KERNEL(THREADS) product(GPU_MAP a, GPU_MAP b, struct wgmma_job job) {
    struct wgmma_room *room = (struct wgmma_room *)gpu_shared();
    uint32_t i = gpu_thread(), fault = job.fault;
    if (i == 0) {
        gpu_barrier_init(&room->barrier, 1);
        gpu_barriers_ready();
        gpu_barrier_expect(&room->barrier, PIECE + N / 64 * PIECE);
        gpu_load_box(room->a, &a, &room->barrier, 0, 0);
        for (int32_t k = 0; k < N / 64; k++) {
            bool transposed = FORM == FORM_BF16_TRANSPOSED || FORM == FORM_REGISTERS_TRANSPOSED;
            gpu_load_box(room->b[k], &b, &room->barrier, transposed ? k * 64 : 0,
                         transposed ? 0 : k * 64);
        }
    }
    gpu_sync();
    gpu_barrier_wait(&room->barrier, 0);
    if (fault == WGMMA_PLAIN_WRITES) {
        room->b[0][i] = 0;
        gpu_sync();
    }
    float d[N / 2];
    uint32_t row = i / GPU_WARP * 16 + i % GPU_WARP / 4, registers[4][4] = {};
    GPU_UNROLL
    for (uint32_t k = 0; k < N / 2; k++)
        d[k] = job.d[(row + k / 2 % 2 * 8) * N + k / 4 * 8 + i % 4 * 2 + k % 2];
    if constexpr (FORM == FORM_REGISTERS || FORM == FORM_REGISTERS_TRANSPOSED) {
        GPU_UNROLL
        for (uint32_t step = 0; step < 4; step++)
            load_fragment(registers[step], job.a_rows, step);
    }
    uint32_t from_a = gpu_shared_address(room->a), from_b = gpu_shared_address(room->b[0]);
    if (fault == WGMMA_NOT_ALIGNED) from_b += 128;
    if (fault == WGMMA_BEYOND) from_b += 5 * PIECE;
    gpu_pin(d);
    if (fault != WGMMA_NO_FENCE) gpu_wgmma_fence();
    GPU_UNROLL
    for (uint32_t step = 0; step < 4; step++)
        step_of<N, FORM>(d, from_a, from_b, registers[step], step);
    gpu_wgmma_commit();
    if (fault == WGMMA_OVERWRITTEN) room->b[0][i] = 0;
    if (fault == WGMMA_TOUCHED) d[3] += 1;
    if (fault != WGMMA_LEFT) gpu_wgmma_wait<0>();
    gpu_pin(d);
    if (fault == WGMMA_LEFT) return;
    GPU_UNROLL
    for (uint32_t k = 0; k < N / 2; k++)
        job.d[(row + k / 2 % 2 * 8) * N + k / 4 * 8 + i % 4 * 2 + k % 2] = d[k];
}

template <int N>
static void launch(void *stream, enum wgmma_form form, const struct tensor_map *a,
                   const struct tensor_map *b, struct wgmma_job job) {
    struct gpu_shape shape = {1, 1, THREADS, sizeof(struct wgmma_room)};
    if (form == FORM_BF16)
        gpu_launch("bf16", product<N, FORM_BF16>, shape, stream, *a, *b, job);
    else if (form == FORM_BF16_TRANSPOSED)
        gpu_launch("bf16_mn", product<N, FORM_BF16_TRANSPOSED>, shape, stream, *a, *b, job);
    else if (form == FORM_REGISTERS)
        gpu_launch("registers", product<N, FORM_REGISTERS>, shape, stream, *a, *b, job);
    else if (form == FORM_REGISTERS_TRANSPOSED)
        gpu_launch("registers_mn", product<N, FORM_REGISTERS_TRANSPOSED>, shape, stream, *a, *b,
                   job);
    else if constexpr (N <= 128)
        gpu_launch("e4m3", product<N, FORM_E4M3>, shape, stream, *a, *b, job);
}

void wrappers_wgmma(void *stream, enum wgmma_form form, uint32_t n, const struct tensor_map *a,
                    const struct tensor_map *b, const uint16_t *a_rows, float *d, uint32_t fault) {
    struct wgmma_job job = {a_rows, d, fault};
    if (n == 64)
        launch<64>(stream, form, a, b, job);
    else if (n == 128)
        launch<128>(stream, form, a, b, job);
    else
        launch<256>(stream, form, a, b, job);
}

/* ---- numbers ---- */

GPU_KERNEL(THREADS) numbers(const float *in, uint32_t *out, uint32_t count) {
    uint32_t i = gpu_block() * THREADS + gpu_thread();
    if (i >= count) return;
    float x = in[i];
    uint32_t results[WRAPPERS_NUMBERS] = {gpu_bits(gpu_root(x)),      gpu_bits(gpu_divide(1, x)),
                                          gpu_bits(gpu_exp(x)),       gpu_to_bf16(x),
                                          gpu_to_bf16_pair(x, -x),    gpu_to_e4m3_pair(x, -x),
                                          gpu_bits(gpu_fma(x, x, 1)), gpu_bits(gpu_power2(x))};
    GPU_UNROLL
    for (uint32_t k = 0; k < WRAPPERS_NUMBERS; k++)
        out[i * WRAPPERS_NUMBERS + k] = results[k];
}

void wrappers_numbers(void *stream, const float *in, uint32_t *out, uint32_t count) {
    struct gpu_shape shape = {(count + THREADS - 1) / THREADS, 1, THREADS, 0};
    gpu_launch("numbers", numbers, shape, stream, in, out, count);
}
