/* SPDX-License-Identifier: Apache-2.0
 * A block of threads takes a head of a token. In products and in sums of values a thread takes a
 * channel, in scores a key: each chain of the twin's has one thread, and no order among threads
 * matters but that of the 16 lanes of a sum, which 16 threads walk.
 */
#include "compute/kernels/cuda/mla_float.h"

#include "compute/kernels/cuda/float_values.cuh"
#include "compute/kernels/cuda/live_rows.cuh"
#include "compute/kernels/cuda/prompt_places.cuh"

#define THREADS 128u
#define CHANNELS 128u /* with one scale */
#define KEYS 64u
#define LANES 16u

GPU_DEVICE uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

GPU_DEVICE void copy_floats(float *to, const float *from, uint32_t count) {
    for (uint32_t i = gpu_thread(); i < count; i += THREADS)
        to[i] = from[i];
}

/* ---- the halves of kv_b ---- */

struct half_job {
    struct mla_float_heads heads;
    struct mla_float_rows rows;
    bool turned; /* keys: W^T */
};

/* A head's half. */
struct kv_half {
    uint32_t first, count; /* rows of kv_b */
    bool scaled_first;     /* codes by their scales, one by one */
};

GPU_DEVICE struct kv_half find_half(const struct half_job *job, uint32_t head) {
    const struct mla_float_heads *of = &job->heads;
    struct kv_half half = {head * (of->nope + of->value), of->nope, false};
    if (!job->turned) {
        half.first += of->nope;
        half.count = of->value;
    }
    uint32_t last = half.first + half.count - 1;
    bool one_block = half.first / CHANNELS == last / CHANNELS;
    bool aligned = !job->turned && half.first % CHANNELS == 0;
    half.scaled_first = of->type == FLOAT_GEMM_E4M3 && !one_block && !aligned;
    return half;
}

GPU_DEVICE float scale_of(const struct mla_float_heads *of, uint32_t row, uint32_t column) {
    return of->scales[row / CHANNELS * ((of->rank + CHANNELS - 1) / CHANNELS) + column / CHANNELS];
}

/* kv_b at a row and a column, as a chain takes it. */
GPU_DEVICE float weight_of(const struct mla_float_heads *of, const struct kv_half *half,
                           uint32_t row, uint32_t column) {
    float value = value_at((const char *)of->kv_b + row * of->pitch, of->type, column);
    return half->scaled_first ? value * scale_of(of, row, column) : value;
}

/* Output n of the half, of x[k]. */
GPU_DEVICE float multiply(const struct half_job *job, const struct kv_half *half, const float *x,
                          uint32_t k_end, uint32_t n) {
    const struct mla_float_heads *of = &job->heads;
    bool scales = of->type == FLOAT_GEMM_E4M3 && !half->scaled_first;
    float sum = 0;
    for (uint32_t first = 0; first < k_end; first += CHANNELS) {
        float part = 0, scale = 1;
        for (uint32_t k = first; k < least(first + CHANNELS, k_end); k++) {
            uint32_t row = half->first + (job->turned ? k : n), column = job->turned ? n : k;
            part = gpu_fma(x[k], weight_of(of, half, row, column), part);
        }
        if (scales)
            scale = scale_of(of, half->first + (job->turned ? first : n), job->turned ? n : first);
        sum = gpu_fma(part, scale, sum);
    }
    return sum;
}

GPU_KERNEL(THREADS) mla_float_half(struct half_job job) {
    const struct mla_float_heads *of = &job.heads;
    float *x = (float *)gpu_shared();
    uint32_t head = gpu_block(), row = gpu_block_y();
    if (!is_there(&job.rows.live, row)) return;
    struct kv_half half = find_half(&job, head);
    uint32_t k_end = job.turned ? of->nope : of->rank, outputs = job.turned ? of->rank : of->value;
    uint32_t x_width = job.turned ? of->nope + of->rope : of->rank;
    uint32_t y_width = job.turned ? of->rank + of->rope : of->value;
    const float *from = job.rows.x + row * job.rows.x_stride + head * x_width;
    float *to = job.rows.y + row * job.rows.y_stride + head * y_width;
    copy_floats(x, from, k_end);
    gpu_sync();
    for (uint32_t n = gpu_thread(); n < outputs; n += THREADS)
        to[n] = multiply(&job, &half, x, k_end, n);
    if (job.turned) copy_floats(to + of->rank, from + of->nope, of->rope);
}

static void run_half(void *stream, const char *name, const struct half_job *job) {
    uint32_t k = job->turned ? job->heads.nope : job->heads.rank;
    struct gpu_shape shape = {job->heads.heads, job->rows.rows, THREADS, k * sizeof(float)};
    if (job->rows.rows) gpu_launch(name, mla_float_half, shape, stream, *job);
}

void mla_float_absorb(void *stream, const struct mla_float_heads *heads,
                      const struct mla_float_rows *rows) {
    struct half_job job = {*heads, *rows, true};
    run_half(stream, "mla_float_absorb", &job);
}

void mla_float_release(void *stream, const struct mla_float_heads *heads,
                       const struct mla_float_rows *rows) {
    struct half_job job = {*heads, *rows, false};
    run_half(stream, "mla_float_release", &job);
}

/* ---- the online softmax ---- */

struct float_softmax {
    float maximum, sum; /* each thread has them */
};

/* The first warp finds the largest score. */
GPU_DEVICE void find_largest(const float *scores, uint32_t count, float *largest) {
    float own = gpu_float(0xFF800000u);
    for (uint32_t i = gpu_thread(); i < count; i += GPU_WARP)
        own = scores[i] > own ? scores[i] : own;
    for (uint32_t apart = GPU_WARP / 2; apart; apart /= 2) {
        float other = gpu_float(gpu_lane_value(gpu_bits(own), gpu_thread() ^ apart));
        own = other > own ? other : own;
    }
    if (gpu_thread() == 0) *largest = own;
}

/* The block's scores become probabilities. Returns by what earlier sums shrink. `words`: two of
 * shared memory. Behind it all threads see all. */
GPU_DEVICE float soften(struct float_softmax *softmax, float *scores, uint32_t count, float scale,
                        float *words) {
    float *largest = words, *total = words + 1, lowest = gpu_float(0xFF800000u);
    if (gpu_thread() < GPU_WARP) find_largest(scores, count, largest);
    gpu_sync();
    float now = *largest > softmax->maximum ? *largest : softmax->maximum;
    float factor = softmax->maximum == lowest ? 0.0f : gpu_exp((softmax->maximum - now) * scale);
    for (uint32_t i = gpu_thread(); i < count; i += THREADS)
        scores[i] = gpu_exp(gpu_fma(scores[i], scale, -(now * scale)));
    gpu_sync();
    if (gpu_thread() < GPU_WARP) {
        float sum = 0;
        for (uint32_t i = gpu_thread(); gpu_thread() < LANES && i < count; i += LANES)
            sum = sum + scores[i];
        for (uint32_t width = LANES / 2; width; width /= 2)
            sum = sum + gpu_float(gpu_lane_value(gpu_bits(sum), gpu_thread() + width));
        if (gpu_thread() == 0) *total = sum;
    }
    gpu_sync();
    softmax->sum = softmax->sum * factor + *total;
    softmax->maximum = now;
    return factor;
}

/* ---- generated tokens ---- */

struct decode_job {
    struct mla_float_keys keys;
    struct mla_float_rows rows;
};

/* Adds a block's keys, in rows `width` apart, to y[c]. */
GPU_DEVICE void add_values(float *y, const float *values, size_t width, uint32_t channels,
                           const float *weights, uint32_t count, float factor) {
    for (uint32_t c = gpu_thread(); c < channels; c += THREADS) {
        float sum = y[c] * factor;
        for (uint32_t t = 0; t < count; t++)
            sum = gpu_fma(weights[t], values[t * width + c], sum);
        y[c] = sum;
    }
}

GPU_KERNEL(THREADS) mla_float_core(struct decode_job job) {
    const struct mla_float_keys *of = &job.keys;
    uint32_t head = gpu_block(), row = gpu_block_y(), width = of->rank + of->rope;
    float *q = (float *)gpu_shared(), *y = q + width, *scores = y + of->rank,
          *words = scores + KEYS;
    if (!is_there(&job.rows.live, row)) return;
    uint32_t kv_first = of->first[row], kv_end = of->last[row] + 1;
    struct float_softmax softmax = {gpu_float(0xFF800000u), 0};
    copy_floats(q, job.rows.x + row * job.rows.x_stride + head * width, width);
    for (uint32_t c = gpu_thread(); c < of->rank; c += THREADS)
        y[c] = 0;
    for (uint32_t block = kv_first / KEYS; block * KEYS < kv_end; block++) {
        uint32_t start = kv_first > block * KEYS ? kv_first : block * KEYS;
        uint32_t count = least((block + 1) * KEYS, kv_end) - start;
        const char *page = of->memory + of->pages[of->first_page[row] + block] * of->page_bytes;
        const char *first = page + of->slice_at + start % KEYS * of->row_bytes;
        gpu_sync();
        for (uint32_t t = gpu_thread(); t < count; t += THREADS) {
            const float *key = (const float *)(first + t * of->row_bytes);
            float score = 0;
            for (uint32_t c = 0; c < width; c++)
                score = gpu_fma(q[c], key[c], score);
            scores[t] = score;
        }
        gpu_sync();
        float factor = soften(&softmax, scores, count, of->scale, words);
        add_values(y, (const float *)first, of->row_bytes / sizeof(float), of->rank, scores, count,
                   factor);
    }
    float *to = job.rows.y + row * job.rows.y_stride + head * of->rank;
    float share = gpu_divide(1.0f, softmax.sum);
    for (uint32_t c = gpu_thread(); c < of->rank; c += THREADS)
        to[c] = y[c] * share;
}

void mla_float_decode(void *stream, const struct mla_float_keys *keys,
                      const struct mla_float_rows *rows) {
    struct decode_job job = {*keys, *rows};
    size_t floats = 2 * (size_t)keys->rank + keys->rope + KEYS + 2;
    struct gpu_shape shape = {keys->heads, rows->rows, THREADS, floats * sizeof(float)};
    if (rows->rows) gpu_launch("mla_float_core", mla_float_core, shape, stream, job);
}

/* ---- prompts ---- */

struct float_take_job {
    struct mla_prompt_runs runs;
    struct mla_prompt_rows rows;
    struct mla_prompt_round round;
    float *latents, *tails;
};

/* A block takes a place. */
GPU_KERNEL(THREADS) mla_float_rows_taken(struct float_take_job job) {
    uint32_t at = gpu_block(), rank = job.rows.rank, rope = job.rows.rope;
    const float *row = (const float *)find_row(&job.runs, &job.rows, job.round.first + at);
    for (uint32_t c = gpu_thread(); c < rank + rope; c += THREADS) {
        float *to = c < rank ? job.latents + (size_t)at * rank + c
                             : job.tails + (size_t)at * rope + (c - rank);
        *to = row ? row[c] : 0.0f;
    }
}

void mla_float_take(void *stream, const struct mla_prompt_runs *runs,
                    const struct mla_prompt_rows *rows, const struct mla_prompt_round *round,
                    float *latents, float *tails) {
    struct float_take_job job = {*runs, *rows, *round, latents, tails};
    struct gpu_shape shape = {round->count, 1, THREADS, 0};
    if (round->count) gpu_launch("mla_float_rows_taken", mla_float_rows_taken, shape, stream, job);
}

struct float_prompt_job {
    struct mla_float_prompt of;
    struct mla_prompt_runs runs;
    struct mla_prompt_round round;
};

/* The range of the round's keys that a token sees. */
struct float_tile {
    uint32_t kv_first, kv_end;       /* keys */
    uint32_t place;                  /* of key 0, less the round's first (modulo 2^32) */
    uint32_t first_block, end_block; /* of 64 keys */
    bool begins, ends;               /* no round before has any, none behind */
};

/* False: the round has none of the row's keys, or it is no run's. */
GPU_DEVICE bool find_keys(const struct float_prompt_job *job, uint32_t row,
                          struct float_tile *tile) {
    uint32_t place = 0, i = 0;
    struct mla_prompt_run run = {};
    for (; i < job->runs.count; i++) {
        run = job->runs.runs[i];
        if (row >= run.first && row < run.first + run.count) break;
        place += tiles_of(keys_of(&job->runs, &run)) * MLA_PROMPT_TILE;
    }
    if (i == job->runs.count) return false;
    uint32_t index = job->runs.kv_index[row], end = job->round.first + job->round.count;
    uint32_t first_block = run.kv_first / KEYS, end_block = index / KEYS + 1;
    uint32_t behind = job->round.first > place ? (job->round.first - place) / KEYS : 0;
    uint32_t before = end > place ? (end - place) / KEYS : 0;
    tile->kv_first = run.kv_first;
    tile->kv_end = index + 1;
    tile->place = place - job->round.first;
    tile->first_block = behind > first_block ? behind : first_block;
    tile->end_block = least(before, end_block);
    tile->begins = tile->first_block == first_block;
    tile->ends = tile->end_block == end_block;
    return tile->first_block < tile->end_block;
}

GPU_DEVICE float score_of(const struct mla_float_prompt *of, const float *q, uint32_t place,
                          uint32_t head) {
    const float *key = of->expanded + ((size_t)place * of->heads + head) * (of->nope + of->value);
    const float *tail = of->tails + (size_t)place * of->rope;
    float score = 0;
    for (uint32_t c = 0; c < of->nope; c++)
        score = gpu_fma(q[c], key[c], score);
    for (uint32_t c = 0; c < of->rope; c++)
        score = gpu_fma(q[of->nope + c], tail[c], score);
    return score;
}

GPU_KERNEL(THREADS) mla_float_run(struct float_prompt_job job) {
    const struct mla_float_prompt *of = &job.of;
    uint32_t row = gpu_block(), head = gpu_block_y(), dim = of->nope + of->rope;
    float *q = (float *)gpu_shared(), *y = q + dim, *scores = y + of->value, *words = scores + KEYS;
    struct float_tile tile;
    if (!find_keys(&job, row, &tile)) return;
    size_t at = (size_t)row * of->heads + head;
    struct float_softmax softmax = {gpu_float(0xFF800000u), 0};
    copy_floats(q, of->queries + row * of->stride + head * dim, dim);
    for (uint32_t c = gpu_thread(); c < of->value; c += THREADS)
        y[c] = tile.begins ? 0.0f : of->y[at * of->value + c];
    if (!tile.begins) {
        softmax.maximum = of->marks[at * 2];
        softmax.sum = of->marks[at * 2 + 1];
    }
    for (uint32_t block = tile.first_block; block < tile.end_block; block++) {
        uint32_t start = tile.kv_first > block * KEYS ? tile.kv_first : block * KEYS;
        uint32_t count = least((block + 1) * KEYS, tile.kv_end) - start;
        size_t place = tile.place + start, width = (size_t)of->heads * (of->nope + of->value);
        gpu_sync();
        for (uint32_t t = gpu_thread(); t < count; t += THREADS)
            scores[t] = score_of(of, q, tile.place + start + t, head);
        gpu_sync();
        float factor = soften(&softmax, scores, count, of->scale, words);
        const float *values =
            of->expanded + place * width + head * (of->nope + of->value) + of->nope;
        add_values(y, values, width, of->value, scores, count, factor);
    }
    float share = tile.ends ? gpu_divide(1.0f, softmax.sum) : 1.0f;
    for (uint32_t c = gpu_thread(); c < of->value; c += THREADS)
        of->y[at * of->value + c] = y[c] * share;
    if (tile.ends || gpu_thread()) return;
    of->marks[at * 2] = softmax.maximum;
    of->marks[at * 2 + 1] = softmax.sum;
}

void mla_float_attend(void *stream, const struct mla_float_prompt *of,
                      const struct mla_prompt_runs *runs, const struct mla_prompt_round *round,
                      uint32_t rows) {
    struct float_prompt_job job = {*of, *runs, *round};
    size_t floats = (size_t)of->nope + of->rope + of->value + KEYS + 2;
    struct gpu_shape shape = {rows, of->heads, THREADS, floats * sizeof(float)};
    if (rows && round->count) gpu_launch("mla_float_run", mla_float_run, shape, stream, job);
}
