/* SPDX-License-Identifier: Apache-2.0
 * A thread takes one column and one or four rows of a tile. Its chain of 128 dependent steps a
 * block is what the twin's order costs; two blocks' chains run side by side, as only their sums
 * have an order.
 */
#include "compute/kernels/cuda/float_gemm.h"

#include "compute/kernels/cuda/float_values.cuh"
#include "compute/kernels/cuda/group_tiles.cuh"

#define SIDE 16u /* columns of a tile, and rows for each of a thread's */
#define BLOCK 128u
#define PARTS 2u
#define THREADS (SIDE * SIDE)
#define PITCH (BLOCK + 4) /* rows begin in different banks */
#define MANY_ROWS 256u

struct float_job {
    struct group_tiles tiles;
    struct float_gemm_weights weights;
    struct float_gemm_rows x;
    float *y;
    size_t y_stride;
};

/* Two blocks of a tile's operands. */
template <int ROWS> struct float_room {
    float x[PARTS][SIDE * ROWS][PITCH];
    float weights[PARTS][SIDE][PITCH];
};

GPU_DEVICE uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* Channels [first, first + PARTS * BLOCK) of `count` rows, of which `there` exist; zeros beyond. */
template <int COUNT>
GPU_DEVICE void load_rows(float (&to)[PARTS][COUNT][PITCH], const char *from, size_t pitch,
                          enum float_gemm_type type, uint32_t there, uint32_t first, uint32_t k) {
    for (uint32_t i = gpu_thread(); i < PARTS * COUNT * BLOCK; i += THREADS) {
        uint32_t row = i / BLOCK % COUNT, part = i / BLOCK / COUNT, channel = i % BLOCK;
        uint32_t at = first + part * BLOCK + channel;
        to[part][row][channel] = row < there && at < k ? value_at(from + row * pitch, type, at) : 0;
    }
}

/* Channels of block `part` behind channel `first` of k. */
GPU_DEVICE uint32_t channels_of(uint32_t part, uint32_t first, uint32_t k) {
    uint32_t begin = first + part * BLOCK;
    return begin < k ? least(BLOCK, k - begin) : 0;
}

/* Chains of PARTS blocks, a step of each in turn: part = fma(x, w, part). */
template <int ROWS>
GPU_DEVICE void run_chains(float (&parts)[PARTS][ROWS], const struct float_room<ROWS> *room,
                           uint32_t first, uint32_t k_end) {
    uint32_t row = gpu_thread() / SIDE, column = gpu_thread() % SIDE;
    for (uint32_t k = 0; k < channels_of(0, first, k_end); k += 4) {
        GPU_UNROLL
        for (uint32_t p = 0; p < PARTS; p++) {
            uint32_t count = channels_of(p, first, k_end);
            if (k >= count) continue;
            struct gpu_words w = gpu_load16(&room->weights[p][column][k]);
            GPU_UNROLL
            for (uint32_t r = 0; r < ROWS; r++) {
                struct gpu_words x = gpu_load16(&room->x[p][row + r * SIDE][k]);
                GPU_UNROLL
                for (uint32_t i = 0; i < 4; i++)
                    if (k + i < count)
                        parts[p][r] =
                            gpu_fma(gpu_float(x.word[i]), gpu_float(w.word[i]), parts[p][r]);
            }
        }
    }
}

template <int ROWS>
GPU_DEVICE void multiply(float (&sum)[ROWS], const struct float_job *job,
                         const struct group_tile *tile, struct float_room<ROWS> *room) {
    const struct float_gemm_weights *weights = &job->weights;
    uint32_t k = weights->k, rows_left = tile->group.row_count - tile->row;
    uint32_t slot = tile->group.slot, columns_left = weights->n - tile->column;
    const char *x =
        (const char *)job->x.x + (size_t)(tile->group.first_row + tile->row) * job->x.pitch;
    const char *w =
        (const char *)weights->data + slot * weights->slot_bytes + tile->column * weights->pitch;
    const float *scales = weights->scales + slot * weights->scale_slot_stride +
                          tile->column / BLOCK * ((k + BLOCK - 1) / BLOCK);
    for (uint32_t first = 0; first < k; first += PARTS * BLOCK) {
        gpu_sync();
        load_rows(room->x, x, job->x.pitch, job->x.is_bf16 ? FLOAT_GEMM_BF16 : FLOAT_GEMM_F32,
                  rows_left, first, k);
        load_rows(room->weights, w, weights->pitch, weights->type, columns_left, first, k);
        gpu_sync();
        float parts[PARTS][ROWS] = {};
        run_chains<ROWS>(parts, room, first, k);
        GPU_UNROLL
        for (uint32_t p = 0; p < PARTS; p++) {
            if (!channels_of(p, first, k)) continue;
            float scale = weights->type == FLOAT_GEMM_E4M3 ? scales[first / BLOCK + p] : 1.0f;
            GPU_UNROLL
            for (uint32_t r = 0; r < ROWS; r++)
                sum[r] = gpu_fma(parts[p][r], scale, sum[r]);
        }
    }
}

template <int ROWS> GPU_KERNEL(THREADS) float_gemm(struct float_job job) {
    struct float_room<ROWS> *room = (struct float_room<ROWS> *)gpu_shared();
    struct group_tile tile = first_tile(&job.tiles);
    for (uint32_t number = gpu_block(); find_tile<SIDE * ROWS, SIDE>(&job.tiles, number, &tile);
         number += gpu_grid()) {
        float sum[ROWS] = {0};
        multiply<ROWS>(sum, &job, &tile, room);
        uint32_t column = tile.column + gpu_thread() % SIDE;
        GPU_UNROLL
        for (uint32_t r = 0; r < ROWS; r++) {
            uint32_t row = tile.row + gpu_thread() / SIDE + r * SIDE;
            if (row < tile.group.row_count && column < job.tiles.n)
                job.y[(tile.group.first_row + row) * job.y_stride + column] = sum[r];
        }
    }
}

template <int ROWS> static void launch(void *stream, const struct float_job *job) {
    uint32_t tiles = most_tiles(&job->tiles, SIDE * ROWS, SIDE), most = 8 * GPU_PROCESSORS;
    struct gpu_shape shape = {tiles < most ? tiles : most, 1, THREADS,
                              sizeof(struct float_room<ROWS>)};
    gpu_launch("float_gemm", float_gemm<ROWS>, shape, stream, *job);
}

static void run(void *stream, const struct float_gemm_weights *weights,
                const struct float_gemm_rows *x, const struct group_tiles *tiles, float *y,
                size_t y_stride) {
    struct float_job job = {*tiles, *weights, *x, y, y_stride};
    if (!tiles->rows || !tiles->group_count) return;
    if (tiles->rows <= MANY_ROWS)
        launch<1>(stream, &job);
    else
        launch<4>(stream, &job);
}

void float_gemm_run(void *stream, const struct float_gemm_weights *weights,
                    const struct float_gemm_rows *x, float *y, size_t y_stride, uint32_t m) {
    struct group_tiles tiles = {nullptr, 1, m, weights->n, x->live};
    run(stream, weights, x, &tiles, y, y_stride);
}

void float_gemm_run_groups(void *stream, const struct float_gemm_weights *weights,
                           const struct float_gemm_rows *x, const struct row_group *groups,
                           uint32_t group_count, uint32_t rows, float *y, size_t y_stride) {
    struct group_tiles tiles = {groups, group_count, rows, weights->n, live_rows_of(nullptr)};
    run(stream, weights, x, &tiles, y, y_stride);
}
