/* SPDX-License-Identifier: Apache-2.0
 * A block of threads stays and takes tile after tile: 128 rows of x by COLUMNS of W. Its first
 * warpgroup brings boxes by TMA, as far ahead as there are stages; the two others multiply 64 rows
 * each. A stage is full when its bytes are there, and empty again when the eight warps have let go
 * of it. With few rows the second half of a tile is skipped if all its rows are beyond m.
 *
 * Decode is bound by the bytes of W, so a small n gets narrow tiles, for all processors to read.
 */
#include "compute/kernels/cuda/fp8_gemm.h"

#include "compute/kernels/cuda/group_tiles.cuh"
#include "compute/kernels/cuda/product_store.cuh"

#define TILE_ROWS 128u
#define BLOCK FP8_GEMM_BLOCK
#define THREADS (3 * GPU_WARPGROUP)
#define CONSUMING_WARPS 8
#define SHARED_BUDGET 200000

struct fp8_job {
    const float *weight_scales;
    size_t scale_slot_stride;
    struct group_tiles tiles;
    float *y;          /* or */
    uint16_t *rounded; /* with y null */
    size_t y_stride;
    uint32_t blocks; /* of k */
};

template <int COLUMNS> struct fp8_stage {
    char x[TILE_ROWS * BLOCK];
    char weights[COLUMNS * BLOCK];
    float scales[TILE_ROWS];
    char fill[512];
};

template <int COLUMNS> struct fp8_stages {
    static constexpr uint32_t count = SHARED_BUDGET / sizeof(struct fp8_stage<COLUMNS>);
    struct fp8_stage<COLUMNS> stage[count];
    uint64_t full[count], empty[count];
};

/* One thread brings all boxes of the block's tiles. */
template <int COLUMNS>
GPU_DEVICE void produce(const struct tensor_map *x, const struct tensor_map *x_scales,
                        const struct tensor_map *weights, const struct fp8_job *job,
                        struct fp8_stages<COLUMNS> *room) {
    struct group_tile tile = first_tile(&job->tiles);
    uint32_t turn = 0;
    for (uint32_t number = gpu_block(); find_tile<TILE_ROWS, COLUMNS>(&job->tiles, number, &tile);
         number += gpu_grid())
        for (uint32_t block = 0; block < job->blocks; block++, turn++) {
            uint32_t at = turn % room->count;
            struct fp8_stage<COLUMNS> *stage = &room->stage[at];
            int32_t row = (int32_t)(tile.group.first_row + tile.row);
            gpu_barrier_wait(&room->empty[at], turn / room->count % 2 ^ 1);
            gpu_barrier_expect(&room->full[at],
                               sizeof stage->x + sizeof stage->weights + sizeof stage->scales);
            gpu_load_box(stage->x, x, &room->full[at], (int32_t)(block * BLOCK), row);
            gpu_load_box(stage->weights, weights, &room->full[at], (int32_t)(block * BLOCK),
                         (int32_t)tile.column, (int32_t)tile.group.slot);
            gpu_load_box(stage->scales, x_scales, &room->full[at], row, (int32_t)block);
        }
}

/* part = 64 rows of the stage's x times its weights. */
template <int COLUMNS>
GPU_DEVICE void multiply(float (&part)[COLUMNS / 2], const struct fp8_stage<COLUMNS> *stage,
                         uint32_t half) {
    uint32_t x = gpu_shared_address(stage->x + half * (TILE_ROWS / 2) * BLOCK);
    uint32_t weights = gpu_shared_address(stage->weights);
    gpu_pin(part);
    gpu_wgmma_fence();
    GPU_UNROLL
    for (uint32_t k = 0; k < BLOCK; k += 32)
        gpu_wgmma_e4m3(part, gpu_operand(x + k), gpu_operand(weights + k), k != 0);
    gpu_wgmma_commit();
    gpu_wgmma_wait<0>();
    gpu_pin(part);
}

/* A thread's elements of the two rows from `row` on, if they are the group's. */
template <int COLUMNS>
GPU_DEVICE void store(const struct fp8_job *job, const struct group_tile *tile,
                      const float (&sum)[COLUMNS / 2], uint32_t row) {
    uint32_t lane = gpu_thread() % GPU_WARP;
    GPU_UNROLL
    for (uint32_t i = 0; i < COLUMNS / 2; i += 2) {
        uint32_t r = row + i / 2 % 2 * 8, c = tile->column + i / 4 * 8 + lane % 4 * 2;
        if (r >= tile->group.row_count || c >= job->tiles.n) continue;
        size_t at = (tile->group.first_row + r) * job->y_stride + c;
        store_two(job->y, job->rounded, at, sum[i], sum[i + 1], c + 1 < job->tiles.n);
    }
}

template <int COLUMNS>
GPU_DEVICE void consume(const struct fp8_job *job, struct fp8_stages<COLUMNS> *room) {
    uint32_t half = gpu_thread() / GPU_WARPGROUP - 1;
    uint32_t warp = gpu_thread() % GPU_WARPGROUP / GPU_WARP, lane = gpu_thread() % GPU_WARP;
    uint32_t own = half * (TILE_ROWS / 2) + warp * 16 + lane / 4; /* first of the thread's rows */
    struct group_tile tile = first_tile(&job->tiles);
    uint32_t turn = 0;
    for (uint32_t number = gpu_block(); find_tile<TILE_ROWS, COLUMNS>(&job->tiles, number, &tile);
         number += gpu_grid()) {
        const float *weight_scales = job->weight_scales + tile.group.slot * job->scale_slot_stride +
                                     tile.column / BLOCK * job->blocks;
        bool idle = tile.row + half * (TILE_ROWS / 2) >= tile.group.row_count;
        float sum[COLUMNS / 2] = {0};
        for (uint32_t block = 0; block < job->blocks; block++, turn++) {
            uint32_t at = turn % room->count;
            const struct fp8_stage<COLUMNS> *stage = &room->stage[at];
            float weight_scale = weight_scales[block];
            gpu_barrier_wait(&room->full[at], turn / room->count % 2);
            float part[COLUMNS / 2];
            float low = 0, high = 0;
            if (!idle) {
                low = stage->scales[own] * weight_scale;
                high = stage->scales[own + 8] * weight_scale;
                multiply<COLUMNS>(part, stage, half);
            }
            gpu_sync_warp();
            if (lane == 0) gpu_barrier_arrive(&room->empty[at]);
            if (idle) continue;
            GPU_UNROLL
            for (uint32_t i = 0; i < COLUMNS / 2; i++)
                sum[i] = gpu_fma(part[i], i / 2 % 2 ? high : low, sum[i]);
        }
        store<COLUMNS>(job, &tile, sum, tile.row + own);
    }
}

template <int COLUMNS>
GPU_KERNEL(THREADS)
fp8_gemm(GPU_MAP x, GPU_MAP x_scales, GPU_MAP weights, struct fp8_job job) {
    struct fp8_stages<COLUMNS> *room = (struct fp8_stages<COLUMNS> *)gpu_shared();
    if (gpu_thread() == 0) {
        for (uint32_t i = 0; i < room->count; i++) {
            gpu_barrier_init(&room->full[i], 1);
            gpu_barrier_init(&room->empty[i], CONSUMING_WARPS);
        }
        gpu_barriers_ready();
    }
    gpu_sync();
    if (gpu_thread() < GPU_WARPGROUP) {
        gpu_registers_give<40>();
        if (gpu_thread() == 0) produce<COLUMNS>(&x, &x_scales, &weights, &job, room);
    } else {
        gpu_registers_take<232>();
        consume<COLUMNS>(&job, room);
    }
}

/* ---- the host's side ---- */

static bool is_narrow(uint32_t n) {
    return n <= 64 * GPU_PROCESSORS;
}

bool fp8_gemm_make_weights(struct fp8_gemm_weights *weights_out, const void *codes, uint64_t pitch,
                           uint64_t slot_pitch, const float *scales, size_t scale_slot_stride,
                           uint32_t n, uint32_t k, uint32_t slots) {
    struct tensor_map_form form = {};
    form.base = codes;
    form.type = MAP_ELEMENT_BYTE;
    form.dimensions = 3;
    form.size[0] = k;
    form.size[1] = n;
    form.size[2] = slots;
    form.box[0] = BLOCK;
    form.box[1] = is_narrow(n) ? 64 : 128;
    form.box[2] = 1;
    form.pitch[0] = pitch;
    form.pitch[1] = slot_pitch;
    form.swizzle = true;
    weights_out->scales = scales;
    weights_out->scale_slot_stride = scale_slot_stride;
    weights_out->n = n;
    weights_out->k = k;
    weights_out->slots = slots;
    return tensor_map_make(&weights_out->map, &form);
}

bool fp8_gemm_make_rows(struct fp8_gemm_rows *rows_out, const void *codes, uint64_t pitch,
                        const float *scales, uint32_t scale_stride, uint32_t rows, uint32_t k) {
    uint32_t blocks = (k + BLOCK - 1) / BLOCK;
    struct tensor_map_form form = {};
    form.base = scales;
    form.type = MAP_ELEMENT_F32;
    form.dimensions = 2;
    form.size[0] = rows;
    form.size[1] = blocks;
    form.box[0] = TILE_ROWS;
    form.box[1] = 1;
    form.pitch[0] = scale_stride * sizeof(float);
    rows_out->k = k;
    rows_out->live = live_rows_of(nullptr);
    return tensor_map_make(&rows_out->scale_map, &form) &&
           tensor_map_make_matrix(&rows_out->map, codes, MAP_ELEMENT_BYTE, k, rows, pitch, BLOCK,
                                  TILE_ROWS);
}

template <int COLUMNS>
static void launch(void *stream, const struct fp8_gemm_weights *weights,
                   const struct fp8_gemm_rows *x, struct fp8_job job) {
    uint32_t tiles = most_tiles(&job.tiles, TILE_ROWS, COLUMNS);
    struct gpu_shape shape = {tiles < GPU_PROCESSORS ? tiles : GPU_PROCESSORS, 1, THREADS,
                              sizeof(struct fp8_stages<COLUMNS>)};
    gpu_launch(COLUMNS == 64 ? "fp8_gemm<64>" : "fp8_gemm<128>", fp8_gemm<COLUMNS>, shape, stream,
               x->map, x->scale_map, weights->map, job);
}

static void run(void *stream, const struct fp8_gemm_weights *weights, const struct fp8_gemm_rows *x,
                struct fp8_job job) {
    job.weight_scales = weights->scales;
    job.scale_slot_stride = weights->scale_slot_stride;
    job.tiles.n = weights->n;
    job.blocks = (weights->k + BLOCK - 1) / BLOCK;
    if (is_narrow(weights->n))
        launch<64>(stream, weights, x, job);
    else
        launch<128>(stream, weights, x, job);
}

void fp8_gemm_run(void *stream, const struct fp8_gemm_weights *weights,
                  const struct fp8_gemm_rows *x, float *y, size_t y_stride, uint32_t m) {
    struct fp8_job job = {};
    job.y = y;
    job.y_stride = y_stride;
    job.tiles.rows = m;
    job.tiles.group_count = 1;
    job.tiles.live = x->live;
    if (m) run(stream, weights, x, job);
}

void fp8_gemm_run_rounded(void *stream, const struct fp8_gemm_weights *weights,
                          const struct fp8_gemm_rows *x, uint16_t *y, size_t y_stride, uint32_t m) {
    struct fp8_job job = {};
    job.rounded = y;
    job.y_stride = y_stride;
    job.tiles.rows = m;
    job.tiles.group_count = 1;
    job.tiles.live = x->live;
    if (m) run(stream, weights, x, job);
}

void fp8_gemm_run_groups(void *stream, const struct fp8_gemm_weights *weights,
                         const struct fp8_gemm_rows *x, const struct row_group *groups,
                         uint32_t group_count, uint32_t rows, float *y, size_t y_stride) {
    struct fp8_job job = {};
    job.y = y;
    job.y_stride = y_stride;
    job.tiles.groups = groups;
    job.tiles.group_count = group_count;
    job.tiles.rows = rows;
    if (group_count && rows) run(stream, weights, x, job);
}
