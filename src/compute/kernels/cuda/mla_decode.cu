/* SPDX-License-Identifier: Apache-2.0
 * A block of threads takes 64 heads of a token and a part of its keys. One warpgroup brings the
 * queries and, two blocks of 64 keys ahead, rows of the cache: a box of 64 keys by 64 channels
 * serves as keys and as values. The two others each score half of a block's keys, tell each other
 * their maxima and probabilities through shared memory, and gather half of the value's channels;
 * the sums fill most of their registers. 128 heads share each key: decode's attention is bound by
 * the tensor cores.
 */
#include "compute/kernels/cuda/mla_decode.h"

#include "compute/kernels/cuda/live_rows.cuh"
#include "compute/kernels/cuda/softmax_rows.cuh"

#define HEADS 64u /* of a block */
#define KEYS 64u
#define CHANNELS 64u
#define BOX_BYTES (KEYS * CHANNELS * 2)
#define THREADS (3 * GPU_WARPGROUP)
#define CONSUMERS (2 * GPU_WARPGROUP)
#define CONSUMING_WARPS 8
#define CONSUMERS_MEET 1 /* their named barrier */

struct mla_job {
    struct mla_decode_tokens tokens;
    float *sums;  /* [token][head][part][rank] */
    float *marks; /* [token][head][part][2]: maximum (of base 2), sum of probabilities */
    float scale;  /* of base 2 */
    uint32_t heads, rank, slice, parts;
};

/* VALUES: channels that a warpgroup gathers; BOXES of a row. */
template <int VALUES, int BOXES> struct mla_stages {
    char q[BOXES][BOX_BYTES];
    char rows[2][BOXES][BOX_BYTES];
    char probabilities[HEADS * KEYS * 2];
    float maxima[2][HEADS], sums[2][HEADS];
    uint64_t q_full, full[2], empty[2];
};

/* The block's share of a token's keys: blocks of 64. */
struct mla_span {
    uint32_t first, end;             /* keys */
    uint32_t first_block, end_block; /* of 64 */
    uint32_t part;
};

GPU_DEVICE struct mla_span span_of(const struct mla_job *job) {
    uint32_t first = job->tokens.first[gpu_block_y()], last = job->tokens.last[gpu_block_y()];
    uint32_t part = gpu_block() % job->parts, begin = part * (MLA_DECODE_PART / KEYS);
    struct mla_span span = {first, last + 1, first / KEYS, last / KEYS + 1, part};
    if (span.first_block < begin) span.first_block = begin;
    if (span.end_block > begin + MLA_DECODE_PART / KEYS)
        span.end_block = begin + MLA_DECODE_PART / KEYS;
    return span;
}

template <int VALUES, int BOXES>
GPU_DEVICE void produce(const struct tensor_map *queries, const struct tensor_map *pages,
                        const struct mla_job *job, const struct mla_span *span,
                        struct mla_stages<VALUES, BOXES> *room) {
    uint32_t first_head = gpu_block() / job->parts * HEADS;
    gpu_barrier_expect(&room->q_full, sizeof room->q);
    for (int32_t i = 0; i < BOXES; i++)
        gpu_load_box(room->q[i], queries, &room->q_full, i * (int32_t)CHANNELS, (int32_t)first_head,
                     (int32_t)gpu_block_y());
    const uint32_t *page_of = job->tokens.pages + job->tokens.first_page[gpu_block_y()];
    uint32_t turn = 0;
    for (uint32_t block = span->first_block; block < span->end_block; block++, turn++) {
        uint32_t at = turn % 2;
        int32_t page = (int32_t)page_of[block];
        gpu_barrier_wait(&room->empty[at], turn / 2 % 2 ^ 1);
        gpu_barrier_expect(&room->full[at], sizeof room->rows[at]);
        for (int32_t i = 0; i < BOXES; i++)
            gpu_load_box(room->rows[at][i], pages, &room->full[at], i * (int32_t)CHANNELS, 0,
                         (int32_t)job->slice, page);
    }
}

/* Rows that are no keys of this token may hold anything; as values they have to be zeros. */
template <int VALUES, int BOXES>
GPU_DEVICE void clear_others(struct mla_stages<VALUES, BOXES> *room, uint32_t at, uint32_t block,
                             const struct mla_span *span) {
    uint32_t first = span->first > block * KEYS ? span->first - block * KEYS : 0;
    uint32_t end = span->end < (block + 1) * KEYS ? span->end - block * KEYS : KEYS;
    if (first == 0 && end == KEYS) return;
    struct gpu_words zeros = {};
    for (uint32_t i = gpu_thread() - GPU_WARPGROUP; i < BOXES * BOX_BYTES / 16; i += CONSUMERS) {
        uint32_t key = i % (BOX_BYTES / 16) / 8;
        if (key < first || key >= end) gpu_store16(room->rows[at][0] + i * 16, zeros);
    }
    gpu_fence_async();
    gpu_sync_some(CONSUMERS_MEET, CONSUMERS);
}

/* Scores of 64 heads and half of the block's keys. */
template <int VALUES, int BOXES>
GPU_DEVICE void score(float (&s)[16], const struct mla_stages<VALUES, BOXES> *room, uint32_t at,
                      uint32_t half) {
    uint32_t q = gpu_shared_address(room->q[0]);
    uint32_t keys = gpu_shared_address(room->rows[at][0]) + half * (BOX_BYTES / 2);
    gpu_pin(s);
    gpu_wgmma_fence();
    GPU_UNROLL
    for (uint32_t i = 0; i < BOXES * 4; i++) {
        uint32_t offset = i / 4 * BOX_BYTES + i % 4 * 32;
        gpu_wgmma_bf16<0>(s, gpu_operand(q + offset), gpu_operand(keys + offset), i != 0);
    }
    gpu_wgmma_commit();
    gpu_wgmma_wait<0>();
    gpu_pin(s);
}

/* Scales and masks scores; the maxima of both halves and of what was, for the thread's rows. */
template <int VALUES, int BOXES>
GPU_DEVICE struct two take_maxima(float (&s)[16], struct mla_stages<VALUES, BOXES> *room,
                                  const struct mla_job *job, const struct mla_span *span,
                                  uint32_t first_key, uint32_t row, uint32_t half, struct two was) {
    uint32_t lane = gpu_thread() % GPU_WARP;
    float lowest = gpu_float(0xFF800000u);
    struct two own = {{lowest, lowest}};
    GPU_UNROLL
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t key = first_key + i / 4 * 8 + lane % 4 * 2 + i % 2;
        s[i] = key < span->first || key >= span->end ? lowest : s[i] * job->scale;
        own.value[i / 2 % 2] = larger(own.value[i / 2 % 2], s[i]);
    }
    GPU_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        own.value[r] = row_largest(own.value[r]);
        if (lane % 4 == 0) room->maxima[half][row + r * 8] = own.value[r];
    }
    gpu_sync_some(CONSUMERS_MEET, CONSUMERS);
    GPU_UNROLL
    for (uint32_t r = 0; r < 2; r++)
        was.value[r] = larger(was.value[r],
                              larger(room->maxima[0][row + r * 8], room->maxima[1][row + r * 8]));
    return was;
}

/* Scores become probabilities, in shared memory as wgmma wants them; returns their sums. */
template <int VALUES, int BOXES>
GPU_DEVICE struct two weigh(float (&s)[16], struct mla_stages<VALUES, BOXES> *room, uint32_t row,
                            uint32_t half, struct two maxima) {
    uint32_t lane = gpu_thread() % GPU_WARP;
    struct two sums = {{0, 0}};
    GPU_UNROLL
    for (uint32_t i = 0; i < 16; i += 2) {
        uint32_t r = i / 2 % 2, key = half * (KEYS / 2) + i / 4 * 8 + lane % 4 * 2;
        float a = gpu_power2(s[i] - maxima.value[r]), b = gpu_power2(s[i + 1] - maxima.value[r]);
        sums.value[r] = sums.value[r] + a + b;
        uint32_t at = (row + r * 8) * KEYS * 2 + key * 2;
        *(uint32_t *)(room->probabilities + (at ^ (at >> 7 & 7) << 4)) = gpu_to_bf16_pair(a, b);
    }
    gpu_fence_async();
    gpu_sync_some(CONSUMERS_MEET, CONSUMERS);
    return sums;
}

/* y += probabilities of the block's keys times half of the values' channels. */
template <int VALUES, int BOXES>
GPU_DEVICE void gather(float (&y)[VALUES / 2], const struct mla_stages<VALUES, BOXES> *room,
                       uint32_t at, uint32_t half) {
    uint32_t p = gpu_shared_address(room->probabilities);
    uint32_t values =
        gpu_shared_address(room->rows[at][0]) + half * (VALUES / CHANNELS) * BOX_BYTES;
    gpu_pin(y);
    gpu_wgmma_fence();
    GPU_UNROLL
    for (uint32_t step = 0; step < KEYS / 16; step++)
        gpu_wgmma_bf16<1>(y, gpu_operand(p + step * 32),
                          gpu_operand_transposed(values + step * 16 * CHANNELS * 2, BOX_BYTES),
                          true);
    gpu_wgmma_commit();
    gpu_wgmma_wait<0>();
    gpu_pin(y);
}

/* The part's sums, maxima and sums of probabilities leave. */
template <int VALUES, int BOXES>
GPU_DEVICE void store_part(const float (&y)[VALUES / 2], struct mla_stages<VALUES, BOXES> *room,
                           const struct mla_job *job, uint32_t part, uint32_t row, uint32_t half,
                           struct two maxima, struct two sums) {
    uint32_t lane = gpu_thread() % GPU_WARP, first_head = gpu_block() / job->parts * HEADS;
    GPU_UNROLL
    for (uint32_t r = 0; r < 2; r++) {
        sums.value[r] = row_total(sums.value[r]);
        if (lane % 4 == 0) room->sums[half][row + r * 8] = sums.value[r];
    }
    gpu_sync_some(CONSUMERS_MEET, CONSUMERS);
    GPU_UNROLL
    for (uint32_t i = 0; i < VALUES / 2; i += 2) {
        uint32_t r = i / 2 % 2, head = first_head + row + r * 8;
        uint32_t channel = half * VALUES + i / 4 * 8 + lane % 4 * 2;
        if (head >= job->heads || channel >= job->rank) continue;
        size_t at = ((size_t)gpu_block_y() * job->heads + head) * job->parts + part;
        gpu_store_pair(job->sums + at * job->rank + channel, y[i], y[i + 1]);
        if (channel == 0)
            gpu_store_pair(job->marks + at * 2, maxima.value[r],
                           room->sums[0][row + r * 8] + room->sums[1][row + r * 8]);
    }
}

template <int VALUES, int BOXES>
GPU_DEVICE void consume(const struct mla_job *job, const struct mla_span *span,
                        struct mla_stages<VALUES, BOXES> *room) {
    uint32_t half = gpu_thread() / GPU_WARPGROUP - 1, lane = gpu_thread() % GPU_WARP;
    uint32_t row = gpu_thread() % GPU_WARPGROUP / GPU_WARP * 16 + lane / 4, turn = 0;
    float lowest = gpu_float(0xFF800000u);
    struct two maxima = {{lowest, lowest}}, sums = {{0, 0}};
    float y[VALUES / 2] = {0};
    gpu_barrier_wait(&room->q_full, 0);
    for (uint32_t block = span->first_block; block < span->end_block; block++, turn++) {
        uint32_t at = turn % 2;
        float s[16];
        gpu_barrier_wait(&room->full[at], turn / 2 % 2);
        clear_others<VALUES, BOXES>(room, at, block, span);
        score<VALUES, BOXES>(s, room, at, half);
        struct two now = take_maxima<VALUES, BOXES>(
            s, room, job, span, block * KEYS + half * (KEYS / 2), row, half, maxima);
        struct two more = weigh<VALUES, BOXES>(s, room, row, half, now), factor;
        GPU_UNROLL
        for (uint32_t r = 0; r < 2; r++) {
            factor.value[r] = gpu_power2(maxima.value[r] - now.value[r]);
            sums.value[r] = gpu_fma(sums.value[r], factor.value[r], more.value[r]);
        }
        GPU_UNROLL
        for (uint32_t i = 0; i < VALUES / 2; i++)
            y[i] = y[i] * factor.value[i / 2 % 2];
        maxima = now;
        gather<VALUES, BOXES>(y, room, at, half);
        gpu_sync_warp();
        if (lane == 0) gpu_barrier_arrive(&room->empty[at]);
    }
    store_part<VALUES, BOXES>(y, room, job, span->part, row, half, maxima, sums);
}

template <int VALUES, int BOXES>
GPU_KERNEL(THREADS)
mla_decode(GPU_MAP queries, GPU_MAP pages, struct mla_job job) {
    struct mla_stages<VALUES, BOXES> *room = (struct mla_stages<VALUES, BOXES> *)gpu_shared();
    if (!is_there(&job.tokens.live, gpu_block_y())) return;
    struct mla_span span = span_of(&job);
    if (span.first_block >= span.end_block) return;
    if (gpu_thread() == 0) {
        gpu_barrier_init(&room->q_full, 1);
        for (uint32_t i = 0; i < 2; i++) {
            gpu_barrier_init(&room->full[i], 1);
            gpu_barrier_init(&room->empty[i], CONSUMING_WARPS);
        }
        gpu_barriers_ready();
    }
    gpu_sync();
    if (gpu_thread() < GPU_WARPGROUP) {
        gpu_registers_give<40>();
        if (gpu_thread() == 0) produce<VALUES, BOXES>(&queries, &pages, &job, &span, room);
    } else {
        gpu_registers_take<232>();
        consume<VALUES, BOXES>(&job, &span, room);
    }
}

/* ---- parts become one ---- */

GPU_KERNEL(GPU_WARPGROUP) mla_merge(struct mla_job job, uint16_t *y) {
    if (!is_there(&job.tokens.live, gpu_block_y())) return;
    uint32_t head = gpu_block();
    uint32_t first = job.tokens.first[gpu_block_y()] / MLA_DECODE_PART;
    uint32_t end = job.tokens.last[gpu_block_y()] / MLA_DECODE_PART + 1;
    size_t at = (size_t)gpu_block_y() * job.heads + head;
    const float *marks = job.marks + at * job.parts * 2,
                *sums = job.sums + at * job.parts * job.rank;
    float largest = marks[first * 2], weight = 0;
    for (uint32_t part = first + 1; part < end; part++)
        largest = larger(largest, marks[part * 2]);
    for (uint32_t part = first; part < end; part++)
        weight = gpu_fma(marks[part * 2 + 1], gpu_power2(marks[part * 2] - largest), weight);
    for (uint32_t channel = gpu_thread(); channel < job.rank; channel += GPU_WARPGROUP) {
        float sum = 0;
        for (uint32_t part = first; part < end; part++)
            sum = gpu_fma(sums[part * job.rank + channel], gpu_power2(marks[part * 2] - largest),
                          sum);
        y[at * job.rank + channel] = gpu_to_bf16(gpu_divide(sum, weight));
    }
}

/* ---- the host's side ---- */

/* A row's boxes, by its rank: of 512, 256 or 128 channels and a key. */
static uint32_t boxes_of(uint32_t rank) {
    return rank <= 128 ? 3 : rank <= 256 ? 5 : 9;
}

bool mla_decode_make_pages(struct mla_decode_pages *pages_out, const void *first_slice,
                           uint64_t slice_pitch, uint64_t page_pitch, uint32_t slices,
                           uint32_t pages, uint32_t width, uint32_t rank) {
    struct tensor_map_form form = {};
    form.base = first_slice;
    form.type = MAP_ELEMENT_BF16;
    form.dimensions = 4;
    form.size[0] = width;
    form.size[1] = KEYS;
    form.size[2] = slices;
    form.size[3] = pages;
    form.box[0] = CHANNELS;
    form.box[1] = KEYS;
    form.box[2] = form.box[3] = 1;
    form.pitch[0] = width * 2;
    form.pitch[1] = slice_pitch;
    form.pitch[2] = page_pitch;
    form.swizzle = true;
    pages_out->width = width;
    pages_out->rank = rank;
    return rank <= 512 && rank % 8 == 0 && width <= boxes_of(rank) * CHANNELS &&
           tensor_map_make(&pages_out->map, &form);
}

bool mla_decode_make_queries(struct mla_decode_queries *queries_out, const uint16_t *queries,
                             uint32_t tokens, uint32_t heads, uint32_t width) {
    struct tensor_map_form form = {};
    form.base = queries;
    form.type = MAP_ELEMENT_BF16;
    form.dimensions = 3;
    form.size[0] = width;
    form.size[1] = heads;
    form.size[2] = tokens;
    form.box[0] = CHANNELS;
    form.box[1] = HEADS;
    form.box[2] = 1;
    form.pitch[0] = width * 2;
    form.pitch[1] = (uint64_t)heads * width * 2;
    form.swizzle = true;
    queries_out->heads = heads;
    return tensor_map_make(&queries_out->map, &form);
}

static uint32_t parts_of(uint32_t keys_max) {
    return (keys_max + MLA_DECODE_PART - 1) / MLA_DECODE_PART;
}

size_t mla_decode_room(uint32_t rank, uint32_t tokens, uint32_t heads, uint32_t keys_max) {
    return (size_t)tokens * heads * parts_of(keys_max) * (rank + 2);
}

template <int VALUES, int BOXES>
static void launch(void *stream, const struct mla_decode_pages *pages,
                   const struct mla_decode_queries *queries, const struct mla_job *job,
                   uint32_t tokens) {
    struct gpu_shape shape = {(job->heads + HEADS - 1) / HEADS * job->parts, tokens, THREADS,
                              sizeof(struct mla_stages<VALUES, BOXES>)};
    gpu_launch("mla_decode", mla_decode<VALUES, BOXES>, shape, stream, queries->map, pages->map,
               *job);
}

void mla_decode_run(void *stream, const struct mla_decode_pages *pages, uint32_t slice,
                    const struct mla_decode_queries *queries,
                    const struct mla_decode_tokens *tokens, uint32_t keys_max, float scale,
                    float *room, uint16_t *y) {
    uint32_t parts = parts_of(keys_max), token_count = tokens->count;
    size_t all = (size_t)token_count * queries->heads * parts;
    struct mla_job job = {*tokens,       room,           room + all * pages->rank,
                          scale * LOG2E, queries->heads, pages->rank,
                          slice,         parts};
    if (!token_count) return;
    if (pages->rank <= 128)
        launch<64, 3>(stream, pages, queries, &job, token_count);
    else if (pages->rank <= 256)
        launch<128, 5>(stream, pages, queries, &job, token_count);
    else
        launch<256, 9>(stream, pages, queries, &job, token_count);
    struct gpu_shape shape = {queries->heads, token_count, GPU_WARPGROUP, 0};
    gpu_launch("mla_merge", mla_merge, shape, stream, job, y);
}
