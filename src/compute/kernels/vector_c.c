/* SPDX-License-Identifier: Apache-2.0
 * Vector kernels in plain C: the truth for every level, and the table of level "c". Reductions run
 * in 16 lanes as kernels.h says, so that one 512-bit register, two 256-bit ones or an array give
 * the same bits.
 */
#include "compute/kernels/tables.h"

#include <math.h>

#include "base/number.h"
#include "compute/kernels/code_values.h"
#include "compute/kernels/vector_any.h"

#define LANES 16

float kernels_exp(float x) {
    if (x < EXP_LOWEST) return 0;
    if (x > EXP_HIGHEST) return INFINITY;
    if (isnan(x)) return x;
    float shifted = fmaf(x, EXP_LOG2E, EXP_ROUNDER);
    float n = shifted - EXP_ROUNDER;
    float r = fmaf(n, -EXP_LN2_HIGH, x);
    r = fmaf(n, -EXP_LN2_LOW, r);
    float p = EXP_C7;
    p = fmaf(p, r, EXP_C6);
    p = fmaf(p, r, EXP_C5);
    p = fmaf(p, r, EXP_C4);
    p = fmaf(p, r, EXP_C3);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    /* n reaches 128, and 2^128 is no float: half of it first. Exact, as the result is normal. */
    int32_t power = (int32_t)n, half = power >> 1;
    return p * float_from_bits((uint32_t)(half + 127) << 23) *
           float_from_bits((uint32_t)(power - half + 127) << 23);
}

static float lanes_sum(float *lane) {
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++)
            lane[i] = lane[i] + lane[i + width];
    return lane[0];
}

static void rmsnorm(float *y, const float *x, const float *weight, uint32_t n, float epsilon) {
    float lane[LANES] = {0};
    for (uint32_t i = 0; i < n; i++)
        lane[i % LANES] = fmaf(x[i], x[i], lane[i % LANES]);
    float factor = 1.0f / sqrtf(lanes_sum(lane) / (float)n + epsilon);
    for (uint32_t i = 0; i < n; i++)
        y[i] = x[i] * factor * weight[i];
}

static void silu_multiply(float *y, const float *gate, const float *up, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = gate[i] / (1.0f + kernels_exp(-gate[i])) * up[i];
}

static void add_scaled(float *y, const float *x, float a, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
}

static void scale(float *y, float a, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = y[i] * a;
}

/* NaNs are passed over. */
static float maximum(const float *x, uint32_t n) {
    float lane[LANES];
    for (int i = 0; i < LANES; i++)
        lane[i] = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        lane[i % LANES] = x[i] > lane[i % LANES] ? x[i] : lane[i % LANES];
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++)
            lane[i] = lane[i + width] > lane[i] ? lane[i + width] : lane[i];
    return lane[0];
}

static float exp_sum(float *y, const float *x, float a, float b, uint32_t n) {
    float lane[LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        y[i] = kernels_exp(fmaf(x[i], a, -b));
        lane[i % LANES] = lane[i % LANES] + y[i];
    }
    return lanes_sum(lane);
}

float vector_c_softmax_bf16_c(uint16_t *weights, const float *scores, uint32_t count, float a,
                              float *max, float *sum) {
    float values[CORE_BLOCKS_MAX * KV_BLOCK_TOKENS], block_max = maximum(scores, count);
    float new_max = block_max > *max ? block_max : *max;
    float factor = *max == -INFINITY ? 0 : kernels_exp((*max - new_max) * a);
    *sum = *sum * factor + exp_sum(values, scores, a, new_max * a, count);
    *max = new_max;
    for (uint32_t i = 0; i < round_up(count, KV_BLOCK_TOKENS); i++)
        weights[i] = i < count ? bf16_from_float(values[i]) : 0;
    return factor;
}

void vector_c_bf16_panel_c(uint16_t *pairs, const struct packed_matrix *weights, uint32_t panel) {
    for (uint32_t channel = 0; channel < weights->cols; channel++)
        for (uint32_t out = 0; out < MATMUL_PANEL; out++)
            pairs[(channel / 2 * MATMUL_PANEL + out) * 2 + channel % 2] =
                matmul_c_bf16_weight(weights, panel, channel, out);
}

void vector_c_bf16_pair_rows_c(uint16_t *pairs, const float *x, size_t x_stride, uint32_t rows,
                               uint32_t cols) {
    for (uint32_t r = 0; r < round_up(rows, BF16_PAIR_ROWS); r++)
        for (uint32_t c = 0; c < cols; c++)
            pairs[((size_t)r / 2 * cols + c) * 2 + r % 2] =
                r < rows ? bf16_from_float(x[r * x_stride + c]) : 0;
}

static void round_bf16(float *y, const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = bf16_rounded(x[i]);
}

static void to_bf16(uint16_t *y, const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = bf16_from_float(x[i]);
}

static void from_bf16(float *y, const uint16_t *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = float_from_bf16(x[i]);
}

static void add_sum_bf16(float *y, const uint16_t *const *x, const float *a, uint32_t count,
                         uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        float sum = 0;
        for (uint32_t k = 0; k < count; k++)
            sum = fmaf(a[k], float_from_bf16(x[k][i]), sum);
        y[i] = y[i] + bf16_rounded(sum);
    }
}

static void from_e4m3(float *y, const uint8_t *codes, float scale, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        y[i] = code_values_of_e4m3(codes[i]) * (scale * 0x1p8f);
}

static void sum_positive(float *y, const float *x, size_t x_stride, const float *a, uint32_t rows,
                         uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        float sum = 0;
        for (uint32_t k = 0; k < rows; k++)
            sum = fmaf(a[k], x[k * x_stride + i] > 0 ? x[k * x_stride + i] : 0, sum);
        y[i] = sum;
    }
}

static float group_scale(const float *x, uint32_t n, bool power_of_two) {
    float largest = QUANT_FLOOR;
    for (uint32_t i = 0; i < n; i++)
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    float s = largest / E4M3_MAX;
    return power_of_two ? power_of_two_from(s) : s; /* s is normal: at least 1e-4 / 448 */
}

static void quantize_e4m3(float *codes, float *scales, const float *x, uint32_t n,
                          bool scale_power_of_two) {
    for (uint32_t first = 0; first < n; first += QUANT_GROUP) {
        uint32_t count = n - first < QUANT_GROUP ? n - first : QUANT_GROUP;
        float s = group_scale(x + first, count, scale_power_of_two);
        scales[first / QUANT_GROUP] = s;
        for (uint32_t i = first; i < first + count; i++)
            codes[i] = float_from_e4m3(e4m3_from_float(x[i] / s));
    }
}

static void quantize_int8(int8_t *codes, float *scales, const float *x, uint32_t n) {
    for (uint32_t first = 0; first < n; first += INT8_GROUP) {
        float largest = INT8_FLOOR, nothing = 0;
        for (uint32_t i = first; i < first + INT8_GROUP; i++) {
            largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
            nothing += x[i] * 0; /* NaN of a NaN or an infinity */
        }
        const float s = isnan(nothing) ? NAN : largest / INT8_MAX_CODE;
        scales[first / INT8_GROUP] = s;
        for (uint32_t i = first; i < first + INT8_GROUP; i++)
            codes[i] = isnan(s) ? 0 : (int8_t)rintf(x[i] / s);
    }
}

static void transpose(float *y, size_t y_stride, const float *x, size_t x_stride, uint32_t rows,
                      uint32_t cols) {
    for (uint32_t c = 0; c < cols; c++)
        for (uint32_t r = 0; r < rows; r++)
            y[c * y_stride + r] = x[r * x_stride + c];
}

const struct kernels kernels_table_c = {
    .level = KERNEL_LEVEL_C,
    .name = "c",
    .numerics = "fma1",
    .matmul = matmul_c_run,
    .gemm = matmul_c_gemm_c_run,
    VECTOR_KERNELS,
};
