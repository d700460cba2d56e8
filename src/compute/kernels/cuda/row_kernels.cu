/* SPDX-License-Identifier: Apache-2.0
 * A warp takes a group of 128 channels, four values a lane, so that a group's maximum never leaves
 * the warp. The norm takes a block for a row: its sum has the twin's order, 16 lanes over the row,
 * which 16 threads walk in shared memory while the others wait: 448 steps for 7,168 channels.
 */
#include "compute/kernels/cuda/row_kernels.h"

#include "compute/kernels/cuda/live_rows.cuh"
#include "compute/kernels/cuda/row_sum.cuh"

#define GROUP 128u
#define NORM_THREADS 256u
#define ROW_THREADS 256u
#define ROW_WARPS (ROW_THREADS / GPU_WARP)

struct four {
    float value[4];
};

/* Four floats from `from` on, of which `count` exist. */
GPU_DEVICE struct four load_four(const float *from, uint32_t count) {
    struct four four = {};
    if (count >= 4) {
        struct gpu_words words = gpu_load16(from);
        for (uint32_t i = 0; i < 4; i++)
            four.value[i] = gpu_float(words.word[i]);
    } else {
        GPU_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            if (i < count) four.value[i] = from[i];
    }
    return four;
}

GPU_DEVICE void store_four(float *to, const struct four *four, uint32_t count) {
    if (count >= 4) {
        struct gpu_words words;
        for (uint32_t i = 0; i < 4; i++)
            words.word[i] = gpu_bits(four->value[i]);
        gpu_store16(to, words);
    } else {
        GPU_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            if (i < count) to[i] = four->value[i];
    }
}

GPU_DEVICE float group_scale(const struct four *four, bool power_of_two) {
    float largest = QUANT_FLOOR;
    for (uint32_t i = 0; i < 4; i++)
        largest = gpu_absolute(four->value[i]) > largest ? gpu_absolute(four->value[i]) : largest;
    for (uint32_t apart = 16; apart; apart /= 2) {
        uint32_t lane = gpu_thread() % GPU_WARP ^ apart;
        float other = gpu_float(gpu_lane_value(gpu_bits(largest), lane));
        largest = other > largest ? other : largest;
    }
    float s = gpu_divide(largest, E4M3_MAX);
    return power_of_two ? gpu_float((gpu_bits(s) + 0x7FFFFFu) & 0x7F800000u) : s;
}

GPU_DEVICE void quantize(const struct row_output *out, const struct four *four, uint32_t row,
                         uint32_t column, uint32_t count) {
    float s = group_scale(four, out->scale_power_of_two);
    if (gpu_thread() % GPU_WARP == 0) out->scales[column / GROUP * out->scale_stride + row] = s;
    uint32_t low = gpu_to_e4m3_pair(gpu_divide(four->value[0], s), gpu_divide(four->value[1], s));
    uint32_t high = gpu_to_e4m3_pair(gpu_divide(four->value[2], s), gpu_divide(four->value[3], s));
    uint32_t codes = low | high << 16;
    uint8_t *to = out->codes + row * out->code_stride + column;
    if (count >= 4)
        *(uint32_t *)to = codes;
    else
        for (uint32_t i = 0; i < count; i++)
            to[i] = (uint8_t)(codes >> 8 * i);
}

GPU_DEVICE void round_four(uint16_t *to, const struct four *four, uint32_t count) {
    if (count >= 4) {
        uint64_t low = gpu_to_bf16_pair(four->value[0], four->value[1]);
        uint64_t high = gpu_to_bf16_pair(four->value[2], four->value[3]);
        *(uint64_t *)to = low | high << 32;
    } else {
        GPU_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            if (i < count) to[i] = gpu_to_bf16(four->value[i]);
    }
}

/* A warp's group of a row leaves: this lane's four from `column` on, of which `count` exist. */
GPU_DEVICE void emit(const struct row_output *out, const struct four *four, uint32_t row,
                     uint32_t column, uint32_t count) {
    if (out->values) store_four(out->values + row * out->value_stride + column, four, count);
    if (out->rounded) round_four(out->rounded + row * out->rounded_stride + column, four, count);
    if (out->codes) quantize(out, four, row, column, count);
}

GPU_DEVICE uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* ---- norm ---- */

struct norm_job {
    float *x;
    const float *add, *weight;
    size_t x_stride, add_stride;
    struct row_output outputs[ROW_OUTPUTS];
    float epsilon;
    uint32_t n;
    struct live_rows live;
};

/* The row, with what is added to it, to shared memory; and back where it came from. */
GPU_DEVICE void load_row(const struct norm_job *job, uint32_t row, float *values) {
    for (uint32_t i = gpu_thread() * 4; i < job->n; i += NORM_THREADS * 4) {
        uint32_t count = least(4, job->n - i);
        float *x = job->x + row * job->x_stride + i;
        struct four four = load_four(x, count);
        if (job->add) {
            struct four other = load_four(job->add + row * job->add_stride + i, count);
            for (uint32_t k = 0; k < 4; k++)
                four.value[k] = four.value[k] + other.value[k];
            store_four(x, &four, count);
        }
        store_four(values + i, &four, count);
    }
}

GPU_KERNEL(NORM_THREADS) row_norm(struct norm_job job) {
    float *factor = (float *)gpu_shared(), *values = factor + 4;
    uint32_t row = gpu_block(), lane = gpu_thread() % GPU_WARP;
    if (!is_there(&job.live, row)) return;
    load_row(&job, row, values);
    gpu_sync();
    if (gpu_thread() < GPU_WARP) {
        float found = norm_factor(values, job.n, job.epsilon);
        if (lane == 0) *factor = found;
    }
    gpu_sync();
    for (uint32_t first = gpu_thread() / GPU_WARP * GROUP; first < job.n;
         first += NORM_THREADS / GPU_WARP * GROUP) {
        uint32_t column = first + lane * 4;
        uint32_t count = column < job.n ? least(4, job.n - column) : 0;
        struct four four = load_four(values + column, count);
        struct four weight = load_four(job.weight + column, count);
        for (uint32_t i = 0; i < 4; i++)
            four.value[i] = four.value[i] * *factor * weight.value[i];
        GPU_UNROLL
        for (uint32_t i = 0; i < ROW_OUTPUTS; i++)
            emit(&job.outputs[i], &four, row, column, count);
    }
}

void row_kernels_norm(void *stream, float *x, size_t x_stride, const float *add, size_t add_stride,
                      const float *weight, float epsilon,
                      const struct row_output outputs[ROW_OUTPUTS], uint32_t rows, uint32_t n,
                      const struct live_rows *live) {
    struct norm_job job = {x,        add,        weight,
                           x_stride, add_stride, {outputs[0], outputs[1], outputs[2]},
                           epsilon,  n,          live_rows_of(live)};
    struct gpu_shape shape = {rows, 1, NORM_THREADS, (n + 4) * sizeof(float)};
    if (rows) gpu_launch("row_norm", row_norm, shape, stream, job);
}

/* ---- groups that know nothing of each other ---- */

struct row_job {
    const float *x, *up; /* up: NULL but for an activation */
    size_t stride;
    struct row_output output;
    uint32_t n;
    struct live_rows live;
};

/* The warp's group of its row: false if there is none. */
GPU_DEVICE bool own_group(uint32_t n, uint32_t *column, uint32_t *count) {
    uint32_t first = (gpu_block_y() * ROW_WARPS + gpu_thread() / GPU_WARP) * GROUP;
    *column = first + gpu_thread() % GPU_WARP * 4;
    *count = *column < n ? least(4, n - *column) : 0;
    return first < n;
}

GPU_DEVICE float activated(float gate, float up) {
    return gpu_divide(gate, 1.0f + gpu_exp(-gate)) * up;
}

GPU_KERNEL(ROW_THREADS) row_prepare(struct row_job job) {
    uint32_t row = gpu_block(), column, count;
    if (!own_group(job.n, &column, &count) || !is_there(&job.live, row)) return;
    struct four four = load_four(job.x + row * job.stride + column, count);
    if (job.up) {
        struct four up = load_four(job.up + row * job.stride + column, count);
        for (uint32_t i = 0; i < 4; i++)
            four.value[i] = activated(four.value[i], up.value[i]);
    }
    emit(&job.output, &four, row, column, count);
}

static struct gpu_shape row_shape(uint32_t rows, uint32_t n) {
    struct gpu_shape shape = {rows, (n + ROW_WARPS * GROUP - 1) / (ROW_WARPS * GROUP), ROW_THREADS,
                              0};
    return shape;
}

void row_kernels_activate(void *stream, const float *gate, const float *up, size_t stride,
                          const struct row_output *output, uint32_t rows, uint32_t n,
                          const struct live_rows *live) {
    struct row_job job = {gate, up, stride, *output, n, live_rows_of(live)};
    if (rows) gpu_launch("row_activate", row_prepare, row_shape(rows, n), stream, job);
}

void row_kernels_prepare(void *stream, const float *x, size_t stride,
                         const struct row_output *output, uint32_t rows, uint32_t n,
                         const struct live_rows *live) {
    struct row_job job = {x, nullptr, stride, *output, n, live_rows_of(live)};
    if (rows) gpu_launch("row_prepare", row_prepare, row_shape(rows, n), stream, job);
}

struct add_job {
    float *y;
    const float *x;
    size_t y_stride, x_stride;
    float a;
    uint32_t n;
    struct live_rows live;
};

GPU_KERNEL(ROW_THREADS) row_add(struct add_job job) {
    uint32_t row = gpu_block(), column, count;
    if (!own_group(job.n, &column, &count) || !is_there(&job.live, row)) return;
    float *y = job.y + row * job.y_stride + column;
    struct four four = load_four(y, count);
    struct four x = load_four(job.x + row * job.x_stride + column, count);
    for (uint32_t i = 0; i < 4; i++)
        four.value[i] = gpu_fma(job.a, x.value[i], four.value[i]);
    store_four(y, &four, count);
}

void row_kernels_add(void *stream, float *y, size_t y_stride, const float *x, size_t x_stride,
                     float a, uint32_t rows, uint32_t n, const struct live_rows *live) {
    struct add_job job = {y, x, y_stride, x_stride, a, n, live_rows_of(live)};
    if (rows) gpu_launch("row_add", row_add, row_shape(rows, n), stream, job);
}

struct look_up_job {
    const uint16_t *bf16;
    const float *f32, *other; /* other: of ids with bit 31 */
    size_t table_stride;
    const uint32_t *ids;
    float *y;
    size_t y_stride;
    uint32_t n;
    struct live_rows live;
};

GPU_KERNEL(ROW_THREADS) row_look_up(struct look_up_job job) {
    uint32_t row = gpu_block(), column, count;
    if (!own_group(job.n, &column, &count) || !is_there(&job.live, row)) return;
    uint32_t id = job.ids[row];
    bool from_other = job.other && id >> 31;
    const float *f32 = from_other ? job.other : job.f32;
    size_t from = (from_other ? id & 0x7FFFFFFFu : id) * job.table_stride + column;
    struct four four = {};
    GPU_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        if (i < count) four.value[i] = job.bf16 ? gpu_from_bf16(job.bf16[from + i]) : f32[from + i];
    store_four(job.y + row * job.y_stride + column, &four, count);
}

void row_kernels_look_up(void *stream, const uint16_t *table_bf16, const float *table_f32,
                         size_t table_stride, const uint32_t *ids, float *y, size_t y_stride,
                         uint32_t rows, uint32_t n, const struct live_rows *live) {
    struct look_up_job job = {table_bf16, table_f32, nullptr, table_stride,      ids,
                              y,          y_stride,  n,       live_rows_of(live)};
    if (rows) gpu_launch("row_look_up", row_look_up, row_shape(rows, n), stream, job);
}

void row_kernels_pick(void *stream, const float *table, const float *other, size_t table_stride,
                      const uint32_t *ids, float *y, size_t y_stride, uint32_t rows, uint32_t n) {
    struct look_up_job job = {nullptr, table,    other, table_stride,         ids,
                              y,       y_stride, n,     live_rows_of(nullptr)};
    if (rows) gpu_launch("row_pick", row_look_up, row_shape(rows, n), stream, job);
}

/* ---- rows of (token, expert) pairs ---- */

#define PIECE 16u /* bytes */

struct gather_job {
    struct row_gather of;
    uint32_t rows;
};

/* A warp takes a row. */
GPU_KERNEL(ROW_THREADS) row_copy(struct gather_job job) {
    uint32_t row = gpu_block() * ROW_WARPS + gpu_thread() / GPU_WARP,
             lane = gpu_thread() % GPU_WARP;
    if (row >= rows_there(&job.of.live, job.rows)) return;
    uint32_t id = job.of.ids ? job.of.ids[row] : row;
    const char *from = job.of.from_rows ? job.of.from_rows[row]
                                        : (const char *)job.of.from + id * job.of.from_pitch;
    char *to = job.of.to_rows ? job.of.to_rows[row] : (char *)job.of.to + row * job.of.to_pitch;
    const float *scales = job.of.from_rows ? (const float *)(from + job.of.scales_at)
                                           : job.of.from_scales + id * job.of.from_scale_step;
    for (uint32_t at = lane * PIECE; at < job.of.bytes; at += GPU_WARP * PIECE) {
        uint32_t count = least(PIECE, job.of.bytes - at);
        if (count == PIECE)
            gpu_store16(to + at, gpu_load16(from + at));
        else
            for (uint32_t i = 0; i < count; i++)
                to[at + i] = from[at + i];
    }
    for (uint32_t group = lane; group < job.of.groups; group += GPU_WARP)
        job.of.to_scales[group * job.of.to_scale_stride + row * job.of.to_scale_step] =
            scales[group * job.of.from_scale_stride];
}

void row_kernels_gather(void *stream, const struct row_gather *of, uint32_t rows) {
    struct gather_job job = {*of, rows};
    struct gpu_shape shape = {(rows + ROW_WARPS - 1) / ROW_WARPS, 1, ROW_THREADS, 0};
    if (rows) gpu_launch("row_copy", row_copy, shape, stream, job);
}

struct combine_job {
    struct row_results of;
    float *y;
    size_t y_stride;
    uint32_t n;
};

GPU_DEVICE struct four add_weighed(const struct four *sum, const struct four *x, float weight) {
    struct four four;
    for (uint32_t i = 0; i < 4; i++)
        four.value[i] = gpu_fma(weight, x->value[i], sum->value[i]);
    return four;
}

GPU_DEVICE struct four rounded(const struct four *x, bool rounds) {
    struct four four;
    for (uint32_t i = 0; i < 4; i++)
        four.value[i] = rounds ? gpu_from_bf16(gpu_to_bf16(x->value[i])) : x->value[i];
    return four;
}

/* Four values of a result, of which `count` exist. */
GPU_DEVICE struct four load_result(const struct row_results *of, uint32_t result, uint32_t column,
                                   uint32_t count) {
    const char *row = (const char *)of->results + result * of->pitch;
    if (!of->is_bf16) return load_four((const float *)row + column, count);
    const uint16_t *halves = (const uint16_t *)row + column;
    struct four four = {};
    if (count >= 4) {
        uint64_t words = *(const uint64_t *)halves;
        for (uint32_t i = 0; i < 4; i++)
            four.value[i] = gpu_from_bf16((uint16_t)(words >> 16 * i));
    } else {
        GPU_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            if (i < count) four.value[i] = gpu_from_bf16(halves[i]);
    }
    return four;
}

/* Whether the pair's group ends with it. */
GPU_DEVICE bool ends_group(const struct row_results *of, size_t pair, uint32_t k) {
    if (k + 1 == of->per_token) return true;
    if (!of->experts) return false;
    return of->experts[pair + 1] / of->group_experts != of->experts[pair] / of->group_experts;
}

/* A sum's weights are in it. */
GPU_DEVICE float weight_of(const struct row_results *of, size_t pair, uint32_t k) {
    bool summed = k + 1 < of->per_token && of->pair_row[pair + 1] == ROW_SUMMED;
    return summed ? 1.0f : of->weights[pair];
}

GPU_KERNEL(ROW_THREADS) row_combine(struct combine_job job) {
    uint32_t row = gpu_block(), per_token = job.of.per_token, size = job.of.group_experts;
    uint32_t column, count;
    if (!own_group(job.n, &column, &count) || !is_there(&job.of.live, row)) return;
    struct four sum = {}, group = {};
    for (uint32_t k = 0; k < per_token; k++) {
        size_t pair = (size_t)row * per_token + k;
        uint32_t result = job.of.pair_row[pair];
        if (result < ROW_NO_PAIR) {
            struct four found = load_result(&job.of, result, column, count);
            found = rounded(&found, job.of.rounds_bf16);
            float weight = weight_of(&job.of, pair, k);
            if (size)
                group = add_weighed(&group, &found, weight);
            else
                sum = add_weighed(&sum, &found, weight);
        }
        if (!size || !ends_group(&job.of, pair, k)) continue;
        group = rounded(&group, job.of.rounds_bf16);
        sum = add_weighed(&sum, &group, 1);
        struct four nothing = {};
        group = nothing;
    }
    store_four(job.y + row * job.y_stride + column, &sum, count);
}

void row_kernels_combine(void *stream, const struct row_results *of, float *y, size_t y_stride,
                         uint32_t rows, uint32_t n) {
    struct combine_job job = {*of, y, y_stride, n};
    if (rows) gpu_launch("row_combine", row_combine, row_shape(rows, n), stream, job);
}
