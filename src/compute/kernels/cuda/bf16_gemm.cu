/* SPDX-License-Identifier: Apache-2.0
 * As fp8_gemm.cu: a block stays and takes tile after tile of 128 rows by COLUMNS, one warpgroup
 * brings boxes of 64 channels, two multiply 64 rows each. Sums stay in the tensor cores'
 * accumulators over all of k.
 */
#include "compute/kernels/cuda/bf16_gemm.h"

#include "compute/kernels/cuda/group_tiles.cuh"
#include "compute/kernels/cuda/product_store.cuh"

#define TILE_ROWS 128u
#define CHANNELS 64u /* of k in a stage: 128 bytes */
#define ROW_BYTES 128u
#define THREADS (3 * GPU_WARPGROUP)
#define CONSUMING_WARPS 8
#define SHARED_BUDGET 200000

struct bf16_job {
    struct bf16_gemm_output y;
    struct group_tiles tiles; /* of each of the batch */
    uint32_t steps, batch;    /* batch: 1 with groups */
};

template <int COLUMNS> struct bf16_stage {
    char x[TILE_ROWS * ROW_BYTES];
    char weights[COLUMNS * ROW_BYTES];
};

template <int COLUMNS> struct bf16_stages {
    static constexpr uint32_t count = SHARED_BUDGET / sizeof(struct bf16_stage<COLUMNS>);
    struct bf16_stage<COLUMNS> stage[count];
    uint64_t full[count], empty[count];
};

/* Moves on to tile `number`, and to the one of the batch that it is of; false: there is none. */
template <int COLUMNS>
GPU_DEVICE bool find(const struct bf16_job *job, uint32_t number, struct group_tile *tile,
                     uint32_t *batch) {
    *batch = 0;
    if (job->tiles.groups) return find_tile<TILE_ROWS, COLUMNS>(&job->tiles, number, tile);
    uint32_t across = (job->tiles.n + COLUMNS - 1) / COLUMNS;
    uint32_t down = (tile->group.row_count + TILE_ROWS - 1) / TILE_ROWS;
    if (!down) return false;
    *batch = number / down / across;
    tile->group.slot = *batch;
    tile->row = number % down * TILE_ROWS;
    tile->column = number / down % across * COLUMNS;
    return *batch < job->batch;
}

/* One thread brings all boxes of the block's tiles. */
template <int COLUMNS, int FORM>
GPU_DEVICE void produce(const struct tensor_map *x, const struct tensor_map *weights,
                        const struct bf16_job *job, struct bf16_stages<COLUMNS> *room) {
    struct group_tile tile = first_tile(&job->tiles);
    uint32_t turn = 0, batch;
    for (uint32_t number = gpu_block(); find<COLUMNS>(job, number, &tile, &batch);
         number += gpu_grid())
        for (uint32_t step = 0; step < job->steps; step++, turn++) {
            uint32_t at = turn % room->count;
            struct bf16_stage<COLUMNS> *stage = &room->stage[at];
            int32_t k = (int32_t)(step * CHANNELS), slot = (int32_t)tile.group.slot;
            int32_t row = (int32_t)(tile.group.first_row + tile.row);
            gpu_barrier_wait(&room->empty[at], turn / room->count % 2 ^ 1);
            gpu_barrier_expect(&room->full[at], sizeof *stage);
            gpu_load_box(stage->x, x, &room->full[at], k, row, (int32_t)batch);
            if (FORM == BF16_GEMM_ROWS_OF_K)
                gpu_load_box(stage->weights, weights, &room->full[at], k, (int32_t)tile.column,
                             slot);
            else
                for (uint32_t c = 0; c < COLUMNS; c += CHANNELS)
                    gpu_load_box(stage->weights + c * ROW_BYTES, weights, &room->full[at],
                                 (int32_t)(tile.column + c), k, slot);
        }
}

/* sum += 64 rows of the stage's x times its weights; begins anew with `first`. */
template <int COLUMNS, int FORM>
GPU_DEVICE void multiply(float (&sum)[COLUMNS / 2], const struct bf16_stage<COLUMNS> *stage,
                         uint32_t half, bool first) {
    uint32_t x = gpu_shared_address(stage->x + half * (TILE_ROWS / 2) * ROW_BYTES);
    uint32_t weights = gpu_shared_address(stage->weights);
    gpu_pin(sum);
    gpu_wgmma_fence();
    GPU_UNROLL
    for (uint32_t step = 0; step < CHANNELS / 16; step++) {
        uint64_t of_weights =
            FORM == BF16_GEMM_ROWS_OF_K
                ? gpu_operand(weights + step * 32)
                : gpu_operand_transposed(weights + step * 16 * ROW_BYTES, CHANNELS * ROW_BYTES);
        gpu_wgmma_bf16<FORM>(sum, gpu_operand(x + step * 32), of_weights, !first || step);
    }
    gpu_wgmma_commit();
    gpu_wgmma_wait<0>();
    gpu_pin(sum);
}

/* A thread's elements of the two rows from `row` on, if they are the group's. */
template <int COLUMNS>
GPU_DEVICE void store(const struct bf16_job *job, const struct group_tile *tile, uint32_t batch,
                      const float (&sum)[COLUMNS / 2], uint32_t row) {
    uint32_t lane = gpu_thread() % GPU_WARP;
    GPU_UNROLL
    for (uint32_t i = 0; i < COLUMNS / 2; i += 2) {
        uint32_t r = row + i / 2 % 2 * 8, c = tile->column + i / 4 * 8 + lane % 4 * 2;
        if (r >= tile->group.row_count || c >= job->tiles.n) continue;
        size_t at =
            batch * job->y.batch_stride + (tile->group.first_row + r) * job->y.row_stride + c;
        store_two(job->y.values, job->y.rounded, at, sum[i], sum[i + 1], c + 1 < job->tiles.n);
    }
}

template <int COLUMNS, int FORM>
GPU_DEVICE void consume(const struct bf16_job *job, struct bf16_stages<COLUMNS> *room) {
    uint32_t half = gpu_thread() / GPU_WARPGROUP - 1;
    uint32_t warp = gpu_thread() % GPU_WARPGROUP / GPU_WARP, lane = gpu_thread() % GPU_WARP;
    uint32_t own = half * (TILE_ROWS / 2) + warp * 16 + lane / 4; /* first of the thread's rows */
    struct group_tile tile = first_tile(&job->tiles);
    uint32_t turn = 0, batch;
    for (uint32_t number = gpu_block(); find<COLUMNS>(job, number, &tile, &batch);
         number += gpu_grid()) {
        bool idle = tile.row + half * (TILE_ROWS / 2) >= tile.group.row_count;
        float sum[COLUMNS / 2] = {0};
        for (uint32_t step = 0; step < job->steps; step++, turn++) {
            uint32_t at = turn % room->count;
            gpu_barrier_wait(&room->full[at], turn / room->count % 2);
            if (!idle) multiply<COLUMNS, FORM>(sum, &room->stage[at], half, step == 0);
            gpu_sync_warp();
            if (lane == 0) gpu_barrier_arrive(&room->empty[at]);
        }
        if (!idle) store<COLUMNS>(job, &tile, batch, sum, tile.row + own);
    }
}

template <int COLUMNS, int FORM>
GPU_KERNEL(THREADS)
bf16_gemm(GPU_MAP x, GPU_MAP weights, struct bf16_job job) {
    struct bf16_stages<COLUMNS> *room = (struct bf16_stages<COLUMNS> *)gpu_shared();
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
        if (gpu_thread() == 0) produce<COLUMNS, FORM>(&x, &weights, &job, room);
    } else {
        gpu_registers_take<232>();
        consume<COLUMNS, FORM>(&job, room);
    }
}

/* ---- the host's side ---- */

/* Few columns in all get narrow tiles, for all processors to have some. */
static bool is_narrow(const struct bf16_gemm_weights *weights) {
    return (size_t)weights->n * weights->batch <= 64 * GPU_PROCESSORS;
}

static struct tensor_map_form form_of(const uint16_t *base, uint32_t across, uint32_t down,
                                      uint32_t batch, uint64_t pitch, uint64_t batch_pitch,
                                      uint32_t box_rows) {
    struct tensor_map_form form = {};
    form.base = base;
    form.type = MAP_ELEMENT_BF16;
    form.dimensions = 3;
    form.size[0] = across;
    form.size[1] = down;
    form.size[2] = batch;
    form.box[0] = CHANNELS;
    form.box[1] = box_rows;
    form.box[2] = 1;
    form.pitch[0] = pitch;
    form.pitch[1] = batch_pitch;
    form.swizzle = true;
    return form;
}

bool bf16_gemm_make_weights(struct bf16_gemm_weights *weights_out, const uint16_t *weights,
                            enum bf16_gemm_form form, uint64_t pitch, uint64_t batch_pitch,
                            uint32_t n, uint32_t k, uint32_t batch) {
    bool turned = form == BF16_GEMM_ROWS_OF_N;
    weights_out->form = form;
    weights_out->n = n;
    weights_out->k = k;
    weights_out->batch = batch;
    uint32_t box_rows = turned || is_narrow(weights_out) ? 64 : 128;
    struct tensor_map_form of_map =
        form_of(weights, turned ? n : k, turned ? k : n, batch, pitch, batch_pitch, box_rows);
    return tensor_map_make(&weights_out->map, &of_map);
}

bool bf16_gemm_make_rows(struct bf16_gemm_rows *rows_out, const uint16_t *x, uint64_t pitch,
                         uint64_t batch_pitch, uint32_t rows, uint32_t k, uint32_t batch) {
    struct tensor_map_form form = form_of(x, k, rows, batch, pitch, batch_pitch, TILE_ROWS);
    rows_out->live = live_rows_of(nullptr);
    return tensor_map_make(&rows_out->map, &form);
}

template <int COLUMNS, int FORM>
static void launch(void *stream, const struct bf16_gemm_weights *weights,
                   const struct bf16_gemm_rows *x, const struct bf16_job *job) {
    uint32_t tiles = most_tiles(&job->tiles, TILE_ROWS, COLUMNS) * job->batch;
    struct gpu_shape shape = {tiles < GPU_PROCESSORS ? tiles : GPU_PROCESSORS, 1, THREADS,
                              sizeof(struct bf16_stages<COLUMNS>)};
    gpu_launch("bf16_gemm", bf16_gemm<COLUMNS, FORM>, shape, stream, x->map, weights->map, *job);
}

static void run(void *stream, const struct bf16_gemm_weights *weights,
                const struct bf16_gemm_rows *x, const struct bf16_gemm_output *y,
                const struct group_tiles *tiles, uint32_t batch) {
    struct bf16_job job = {*y, *tiles, (weights->k + CHANNELS - 1) / CHANNELS, batch};
    bool narrow = is_narrow(weights), turned = weights->form == BF16_GEMM_ROWS_OF_N;
    if (!tiles->rows || !tiles->group_count) return;
    if (narrow && !turned) launch<64, BF16_GEMM_ROWS_OF_K>(stream, weights, x, &job);
    if (narrow && turned) launch<64, BF16_GEMM_ROWS_OF_N>(stream, weights, x, &job);
    if (!narrow && !turned) launch<128, BF16_GEMM_ROWS_OF_K>(stream, weights, x, &job);
    if (!narrow && turned) launch<128, BF16_GEMM_ROWS_OF_N>(stream, weights, x, &job);
}

void bf16_gemm_run(void *stream, const struct bf16_gemm_weights *weights,
                   const struct bf16_gemm_rows *x, const struct bf16_gemm_output *y, uint32_t m) {
    struct group_tiles tiles = {nullptr, 1, m, weights->n, x->live};
    run(stream, weights, x, y, &tiles, weights->batch);
}

void bf16_gemm_run_groups(void *stream, const struct bf16_gemm_weights *weights,
                          const struct bf16_gemm_rows *x, const struct row_group *groups,
                          uint32_t group_count, uint32_t rows, const struct bf16_gemm_output *y) {
    struct group_tiles tiles = {groups, group_count, rows, weights->n, live_rows_of(nullptr)};
    run(stream, weights, x, y, &tiles, 1);
}
