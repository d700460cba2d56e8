/* SPDX-License-Identifier: Apache-2.0
 * Matrix products in plain C: the arithmetic of matmul.h word for word, and the level for CPUs
 * without AVX2. fmaf() rounds once on every machine, so the faster levels can be compared bit by
 * bit.
 */
#include "compute/kernels/tables.h"

#include <math.h>
#include <string.h>

#include "base/number.h"
#include "compute/kernels/code_values.h"

/* A code of four bits, as the chain takes it. */
static float code_at(const struct packed_matrix *weights, uint32_t panel, uint32_t channel,
                     uint32_t out) {
    size_t word = ((size_t)panel * weights->cols + channel) / 8 * MATMUL_PANEL + out;
    uint32_t code = ((const uint32_t *)weights->data)[word] >> packed_code_shift(channel) & 15;
    return (float)code_values_of(weights->type)[code];
}

/* A weight of a type of blocks: weight_super.h. */
static float block_weight(const struct packed_matrix *weights, uint32_t panel, uint32_t channel,
                          uint32_t out) {
    const struct weight_blocks *blocks = weight_type_blocks(weights->type);
    const size_t index =
        (size_t)panel * (weights->cols / blocks->channels) + channel / blocks->channels;
    const struct packed_super super = packed_super_at(
        blocks, (const char *)weights->group_scales + index * packed_super_bytes(blocks));
    const size_t at = (size_t)(channel % blocks->channels / blocks->group) * MATMUL_PANEL + out;
    const size_t place = ((size_t)panel * weights->cols + channel) * MATMUL_PANEL + out;
    float code = blocks->code_bits == 8 ? (float)((const int8_t *)weights->data)[place]
                                        : code_at(weights, panel, channel, out);
    float scale = float_from_f16(super.d[out]);
    if (blocks->scaled) scale *= (float)super.scales[at];
    float value = scale * code;
    if (blocks->has_mins) value -= float_from_f16(super.d_min[out]) * (float)super.mins[at];
    return value;
}

/* w[0..MATMUL_PANEL) of one input channel of a panel, as the chain takes it. */
static void load_weights(const struct packed_matrix *weights, uint32_t panel, uint32_t channel,
                         float *w) {
    size_t at = ((size_t)panel * weights->cols + channel) * MATMUL_PANEL;
    for (uint32_t i = 0; i < MATMUL_PANEL; i++) {
        switch (weights->type) {
        case WEIGHT_FP8:
            w[i] = code_values_of_e4m3(((const uint8_t *)weights->data)[at + i]);
            break;
        case WEIGHT_BF16:
            w[i] = float_from_bf16(((const uint16_t *)weights->data)[at + i]);
            break;
        case WEIGHT_INT4_32:
        case WEIGHT_INT4_128:
        case WEIGHT_MXFP4:
            w[i] = code_at(weights, panel, channel, i);
            break;
        case WEIGHT_Q8_0:
        case WEIGHT_Q4_0:
        case WEIGHT_Q4_K:
        case WEIGHT_Q5_K:
        case WEIGHT_Q6_K:
            w[i] = block_weight(weights, panel, channel, i);
            break;
        default:
            w[i] = ((const float *)weights->data)[at + i];
            break;
        }
    }
}

static float x_at(const struct matmul *job, uint32_t row, uint32_t channel) {
    const size_t at = (size_t)row * QUANT_GROUP + channel % QUANT_GROUP;
    if (job->x_int8) return matmul_int8_row(job, channel / QUANT_GROUP, row)[channel % QUANT_GROUP];
    if (!job->x_blocks) return job->x[row * job->x_stride + channel];
    size_t block = channel / QUANT_GROUP * job->x_block_stride;
    return float_from_bf16(job->x_blocks[block + at]);
}

/* w_scale of matmul.h. */
static float scale_at(const struct packed_matrix *weights, uint32_t panel, uint32_t channel,
                      uint32_t out) {
    const uint32_t group = weight_type_group(weights->type), cols = weights->cols;
    if (group) {
        size_t at = (size_t)panel * (cols / group) + channel / group;
        return float_from_bf16(weights->group_scales[at * MATMUL_PANEL + out]);
    }
    if (weights->type != WEIGHT_FP8) return 1;
    size_t row = panel * MATMUL_PANEL / QUANT_GROUP;
    return weights->scales[row * divide_up(cols, QUANT_GROUP) + channel / QUANT_GROUP];
}

/* One block of one panel, from channel `first` on, for rows 0..m-1: y = fma(part, s, y). */
static void run_block(const struct matmul *job, uint32_t panel, uint32_t first, uint32_t count) {
    const struct packed_matrix *weights = job->weights;
    float w[QUANT_GROUP][MATMUL_PANEL];
    for (uint32_t k = 0; k < count; k++)
        load_weights(weights, panel, first + k, w[k]);
    const float lift = weights->type == WEIGHT_FP8 ? 0x1p8f : 1;
    const float unit = weight_type_unit(weights->type);
    for (uint32_t row = 0; row < job->m; row++) {
        float *y = job->y + row * job->y_stride + (size_t)panel * MATMUL_PANEL;
        const uint32_t scaled = job->x_int8 ? INT8_GROUP : QUANT_GROUP;
        float x_scale =
            job->x_scales ? job->x_scales[row * job->x_scale_stride + first / scaled] : 1;
        float part[MATMUL_PANEL] = {0};
        for (uint32_t k = 0; k < count; k++) {
            float x = x_at(job, row, first + k);
            for (uint32_t i = 0; i < MATMUL_PANEL; i++)
                part[i] = fmaf(x * lift, w[k][i], part[i]);
        }
        for (uint32_t i = 0; i < MATMUL_PANEL; i++)
            y[i] = fmaf(part[i], x_scale * unit * scale_at(weights, panel, first, i), y[i]);
    }
}

uint16_t matmul_c_bf16_weight(const struct packed_matrix *weights, uint32_t panel, uint32_t channel,
                              uint32_t out) {
    size_t at = ((size_t)panel * weights->cols + channel) * MATMUL_PANEL + out;
    if (weights->type == WEIGHT_BF16) return ((const uint16_t *)weights->data)[at];
    if (weights->type == WEIGHT_F32) return bf16_from_float(((const float *)weights->data)[at]);
    return bf16_from_float(float_from_e4m3(((const uint8_t *)weights->data)[at]) *
                           scale_at(weights, panel, channel, out));
}

void matmul_c_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    const uint32_t cols = job->weights->cols, group = weight_type_group(job->weights->type);
    const uint32_t block = job->x_int8 ? INT8_GROUP : group ? group : QUANT_GROUP;
    for (uint32_t panel = panel_first; panel < panel_first + panel_count; panel++) {
        for (uint32_t row = 0; row < job->m; row++)
            memset(job->y + row * job->y_stride + (size_t)panel * MATMUL_PANEL, 0,
                   MATMUL_PANEL * sizeof(float));
        for (uint32_t first = 0; first < cols; first += block)
            run_block(job, panel, first, cols - first < block ? cols - first : block);
    }
}

static float gemm_value(const float *floats, const uint16_t *bf16, size_t at) {
    return bf16 ? float_from_bf16(bf16[at]) : floats[at];
}

void matmul_c_gemm_c_run(const struct gemm *job) {
    for (uint32_t row = 0; row < job->m; row++) {
        float *c = job->c + row * job->c_stride;
        if (!job->accumulate) memset(c, 0, job->n * sizeof(float));
        for (uint32_t k = 0; k < job->k; k++) {
            float a = gemm_value(job->a, job->a_bf16, row * job->a_stride + k);
            for (uint32_t i = 0; i < job->n; i++)
                c[i] = fmaf(a, gemm_value(job->b, job->b_bf16, k * job->b_stride + i), c[i]);
        }
    }
}

/* Row `row` of a context, which lies in pieces or behind `whole`. */
static const uint16_t *context_row(const struct gemm_bf16 *job, const uint16_t *whole, uint32_t row,
                                   size_t stride) {
    if (!job->pieces) return whole + row * stride;
    return job->pieces[row / KV_BLOCK_TOKENS] + row % KV_BLOCK_TOKENS * stride;
}

static float gemm_bf16_a(const struct gemm_bf16 *job, uint32_t row, uint32_t channel) {
    const uint16_t *a = job->layout == BF16_ROWS ? job->a + row * job->a_stride
                                                 : context_row(job, job->a, row, job->a_stride);
    return channel < job->k ? float_from_bf16(a[channel]) : 0;
}

/* Value `channel` of column `n` of B; 0 behind an odd last channel. */
static float gemm_bf16_b(const struct gemm_bf16 *job, uint32_t channel, uint32_t n) {
    static const uint32_t adjacent[] = {[BF16_ROWS] = 1, [BF16_PAIRS] = 2, [BF16_FOURS] = 4};
    uint32_t width = adjacent[job->layout];
    if (channel >= job->k) return 0;
    if (job->layout == BF16_ROWS)
        return float_from_bf16(context_row(job, job->b, channel, job->b_stride)[n]);
    return float_from_bf16(job->b[channel / width * job->b_stride + n * width + channel % width]);
}

#define WIDEST 32

/* How an instruction sums: `width` channels join a sum at once. */
struct dot {
    uint32_t width; /* at most WIDEST */
    float (*step)(float sum, const float *a, const float *b);
    bool lifts; /* takes codes times 2^-8 and their x times 2^8 */
};

/* A step's channels from `k` on of a row of A and a column of B; zeros behind the last. */
static void gather_step(const struct gemm_bf16 *job, uint32_t width, uint32_t row, uint32_t column,
                        uint32_t k, float a[WIDEST], float b[WIDEST]) {
    for (uint32_t i = 0; i < width; i++) {
        a[i] = gemm_bf16_a(job, row, k + i);
        b[i] = gemm_bf16_b(job, k + i, column);
    }
}

static void gemm_dot(const struct gemm_bf16 *job, const struct dot *dot) {
    uint32_t sums = job->layout == BF16_FOURS ? 2 : 1;
    float a[WIDEST], b[WIDEST];
    for (uint32_t row = 0; row < job->m; row++) {
        float *c = job->c + row * job->c_stride;
        for (uint32_t i = 0; i < job->n * sums; i++) {
            float sum = job->accumulate ? c[i] : 0;
            for (uint32_t k = i % sums * dot->width; k < job->k; k += dot->width * sums) {
                gather_step(job, dot->width, row, i / sums, k, a, b);
                sum = dot->step(sum, a, b);
            }
            c[i] = sum;
        }
    }
}

static float odd_channel_first(float sum, const float *a, const float *b) {
    return fmaf(a[0], b[0], fmaf(a[1], b[1], sum));
}

void matmul_c_gemm_bf16_c_run(const struct gemm_bf16 *job) {
    gemm_dot(job, &(struct dot){2, odd_channel_first, false});
}

/* ---- BFDOT, as Arm's manual has it (BFDotAdd where FPCR.EBF is 0) ---- */

/* high + rest, where rest is what a sum rounded to `high` has lost: as a float with its last bit
 * set unless it is exact, and a zero of its sign where it is subnormal. */
static float round_to_odd(double high, double rest) {
    uint64_t bits;
    if (!isfinite(high)) return (float)high;
    memcpy(&bits, &high, sizeof bits);
    if (rest != 0) bits = (bits - (signbit(rest) != signbit(high))) | 1; /* towards zero, inexact */
    uint32_t sign = (uint32_t)(bits >> 32) & 0x80000000u;
    bits &= INT64_MAX;
    if (bits < (uint64_t)(1023 - 126) << 52) return float_from_bits(sign);
    if (bits >= (uint64_t)(1023 + 128) << 52) return float_from_bits(sign | 0x7F800000u);
    uint32_t value = (uint32_t)((bits - ((uint64_t)(1023 - 127) << 52)) >> 29);
    return float_from_bits(sign | value | ((bits & 0x1FFFFFFFu) != 0));
}

static float sum_to_odd(float a, float b) {
    double high = (double)a + (double)b, of_b = high - (double)a;
    return round_to_odd(high, ((double)a - (high - of_b)) + ((double)b - of_b));
}

static float flushed(float value) {
    return fabsf(value) < 0x1p-126f ? copysignf(0, value) : value;
}

static float bfdot(float sum, const float *a, const float *b) {
    float products[2];
    for (int i = 0; i < 2; i++) /* exact in a double */
        products[i] = round_to_odd((double)flushed(a[i]) * (double)flushed(b[i]), 0);
    return sum_to_odd(flushed(sum), sum_to_odd(products[0], products[1]));
}

void matmul_c_gemm_bfdot_c_run(const struct gemm_bf16 *job) {
    gemm_dot(job, &(struct dot){2, bfdot, true});
}

/* ---- AMX, as Intel's manual has TDPBF16PS ---- */

static float even_and_odd(float sum, const float *a, const float *b) {
    float of[2] = {0, 0};
    for (uint32_t k = 0; k < WIDEST; k++)
        of[k % 2] = flushed(fmaf(flushed(a[k]), flushed(b[k]), of[k % 2]));
    return flushed(flushed(sum) + flushed(of[0] + of[1]));
}

void matmul_c_gemm_amx_c_run(const struct gemm_bf16 *job) {
    gemm_dot(job, &(struct dot){WIDEST, even_and_odd, false});
}

/* ---- matrix products of both ---- */

/* One block of one panel and one row: y = fma(part, s, y). */
static void run_dot_block(const struct matmul *job, const struct dot *dot, uint32_t panel,
                          uint32_t block, uint32_t row) {
    const struct packed_matrix *weights = job->weights;
    uint32_t first = block * QUANT_GROUP;
    uint32_t end = weights->cols - first < QUANT_GROUP ? weights->cols : first + QUANT_GROUP;
    bool fp8 = weights->type == WEIGHT_FP8;
    float s = scale_at(weights, panel, first, 0);
    if (job->x_scales) s = job->x_scales[row * job->x_scale_stride + block] * s;
    float *y = job->y + row * job->y_stride + (size_t)panel * MATMUL_PANEL;
    float part[MATMUL_PANEL] = {0}, lift_x = fp8 && dot->lifts ? 0x1p8f : 1;
    float lift_w = fp8 && !dot->lifts ? 0x1p8f : 1;
    for (uint32_t k = first; k < end; k += dot->width) {
        float x[WIDEST] = {0}, w[WIDEST][MATMUL_PANEL] = {{0}}, of_output[WIDEST];
        for (uint32_t i = 0; i < dot->width && k + i < end; i++) {
            x[i] = x_at(job, row, k + i) * lift_x;
            load_weights(weights, panel, k + i, w[i]);
        }
        for (uint32_t n = 0; n < MATMUL_PANEL; n++) {
            for (uint32_t i = 0; i < dot->width; i++)
                of_output[i] = w[i][n] * lift_w;
            part[n] = dot->step(part[n], x, of_output);
        }
    }
    for (uint32_t i = 0; i < MATMUL_PANEL; i++)
        y[i] = fmaf(part[i], s, block ? y[i] : 0);
}

static void run_dot(const struct matmul *job, const struct dot *dot, uint32_t panel_first,
                    uint32_t panel_count) {
    for (uint32_t panel = panel_first; panel < panel_first + panel_count; panel++)
        for (uint32_t row = 0; row < job->m; row++)
            for (uint32_t block = 0; block * QUANT_GROUP < job->weights->cols; block++)
                run_dot_block(job, dot, panel, block, row);
}

/* A row without scales: weights times their scales are rounded to BF16, and one sum goes through
 * all channels. */
static void run_dot_whole(const struct matmul *job, const struct dot *dot, uint32_t panel,
                          uint32_t row) {
    uint32_t cols = job->weights->cols;
    float *y = job->y + row * job->y_stride + (size_t)panel * MATMUL_PANEL;
    memset(y, 0, MATMUL_PANEL * sizeof *y);
    for (uint32_t k = 0; k < cols; k += dot->width) {
        uint32_t count = cols - k < dot->width ? cols - k : dot->width;
        float x[WIDEST] = {0}, w[WIDEST] = {0};
        for (uint32_t i = 0; i < count; i++)
            x[i] = x_at(job, row, k + i);
        for (uint32_t n = 0; n < MATMUL_PANEL; n++) {
            for (uint32_t i = 0; i < count; i++)
                w[i] = float_from_bf16(matmul_c_bf16_weight(job->weights, panel, k + i, n));
            y[n] = dot->step(y[n], x, w);
        }
    }
}

void matmul_c_bfdot_c_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    run_dot(job, &(struct dot){2, bfdot, true}, panel_first, panel_count);
}

void matmul_c_amx_c_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    const struct dot dot = {WIDEST, even_and_odd, false};
    if (job->x_scales) {
        run_dot(job, &dot, panel_first, panel_count);
        return;
    }
    for (uint32_t panel = panel_first; panel < panel_first + panel_count; panel++)
        for (uint32_t row = 0; row < job->m; row++)
            run_dot_whole(job, &dot, panel, row);
}
