/* SPDX-License-Identifier: Apache-2.0
 * A block computes a row of the cache; its norm is that of row_norm. For queries a thread computes
 * one channel: it reads both channels of the pair, as the second read costs nothing compared with
 * the row's.
 */
#include "compute/kernels/cuda/attention_rows.h"

#include "compute/kernels/cuda/live_rows.cuh"
#include "compute/kernels/cuda/row_sum.cuh"

#define THREADS 256u
#define COLUMNS 1024u /* of queries, for a block */
#define PAGE_ROWS 64u

/* Channel i of the `rope` channels at x, rotated. */
GPU_DEVICE float rotated(const float *x, const float *angles, uint32_t i, uint32_t rope,
                         bool interleaved) {
    uint32_t pairs = rope / 2, pair = interleaved ? i / 2 : i % pairs;
    bool second = interleaved ? i % 2 != 0 : i >= pairs;
    float a = x[interleaved ? 2 * pair : pair], b = x[interleaved ? 2 * pair + 1 : pair + pairs];
    float real = angles[pair], imaginary = angles[pairs + pair];
    return second ? a * imaginary + b * real : a * real - b * imaginary;
}

GPU_DEVICE void store_one(char *row, uint32_t channel, float value, bool is_bf16) {
    if (is_bf16)
        ((uint16_t *)row)[channel] = gpu_to_bf16(value);
    else
        ((float *)row)[channel] = value;
}

GPU_KERNEL(THREADS) attention_write(struct attention_latents job) {
    float *factor = (float *)gpu_shared(), *values = factor + 4;
    uint32_t row = gpu_block(), width = job.rank + job.rope;
    if (!is_there(&job.live, row)) return;
    const float *kv_a = job.kv_a + row * job.stride;
    const float *angles = job.angles + (size_t)job.positions[row] * job.rope;
    uint32_t index = job.kv_index[row];
    uint32_t page = job.pages[job.first_page[row] + index / PAGE_ROWS];
    char *to =
        job.memory + page * job.page_bytes + job.slice_at + index % PAGE_ROWS * job.row_bytes;
    for (uint32_t i = gpu_thread(); i < width; i += THREADS)
        values[i] = kv_a[i];
    gpu_sync();
    if (gpu_thread() < GPU_WARP) {
        float found = norm_factor(values, job.rank, job.epsilon);
        if (gpu_thread() == 0) *factor = found;
    }
    gpu_sync();
    for (uint32_t i = gpu_thread(); i < width; i += THREADS) {
        float value = i < job.rank ? values[i] * *factor * job.weight[i]
                                   : rotated(values + job.rank, angles, i - job.rank, job.rope,
                                             job.interleaved);
        store_one(to, i, value, job.is_bf16);
    }
}

void attention_rows_write(void *stream, const struct attention_latents *of, uint32_t rows) {
    struct gpu_shape shape = {rows, 1, THREADS, (of->rank + of->rope + 4) * sizeof(float)};
    if (rows) gpu_launch("attention_write", attention_write, shape, stream, *of);
}

GPU_KERNEL(THREADS) attention_rotate(struct attention_queries job) {
    uint32_t row = gpu_block(), dim = job.nope + job.rope, width = job.heads * dim;
    uint32_t first = gpu_block_y() * COLUMNS, end = first + COLUMNS;
    if (!is_there(&job.live, row)) return;
    const float *q = job.q + row * job.stride;
    const float *angles = job.angles + (size_t)job.positions[row] * job.rope;
    char *to = job.to + row * job.to_pitch;
    for (uint32_t i = first + gpu_thread(); i < end && i < width; i += THREADS) {
        uint32_t within = i % dim;
        float value = within < job.nope ? q[i]
                                        : rotated(q + (i - within + job.nope), angles,
                                                  within - job.nope, job.rope, job.interleaved);
        store_one(to, i, value, job.is_bf16);
    }
}

void attention_rows_rotate(void *stream, const struct attention_queries *of, uint32_t rows) {
    uint32_t width = of->heads * (of->nope + of->rope);
    struct gpu_shape shape = {rows, (width + COLUMNS - 1) / COLUMNS, THREADS, 0};
    if (rows) gpu_launch("attention_rotate", attention_rotate, shape, stream, *of);
}

GPU_KERNEL(THREADS) attention_copy_tails(struct attention_tails job) {
    uint32_t row = gpu_block(), dim = job.nope + job.rope, width = job.rank + job.rope;
    if (!is_there(&job.live, row)) return;
    for (uint32_t i = gpu_thread(); i < job.heads * job.rope; i += THREADS) {
        uint32_t head = i / job.rope, channel = i % job.rope;
        job.to[row * job.to_stride + head * width + job.rank + channel] =
            job.queries[row * job.stride + head * dim + job.nope + channel];
    }
}

void attention_rows_copy_tails(void *stream, const struct attention_tails *of, uint32_t rows) {
    struct gpu_shape shape = {rows, 1, THREADS, 0};
    if (rows) gpu_launch("attention_copy_tails", attention_copy_tails, shape, stream, *of);
}
