/* SPDX-License-Identifier: Apache-2.0
 * Matrix products in plain C: the arithmetic of matmul.h word for word, and the level for CPUs
 * without AVX2. fmaf() rounds once on every machine, so the faster levels can be compared bit by
 * bit.
 */
#include "compute/kernels/tables.h"

#include <math.h>

#include "base/number.h"

/* A code's value times 2^-8: its bits, moved into a half-float. */
static float fp8_scaled_down(uint8_t code) {
    return float_from_f16((uint16_t)((code & 0x80u) << 8 | (code & 0x7Fu) << 7));
}

/* w[0..MATMUL_PANEL) of one input channel of a panel, as the chain takes it. */
static void load_weights(const struct packed_matrix *weights, uint32_t panel, uint32_t channel,
                         float *w) {
    size_t at = ((size_t)panel * weights->cols + channel) * MATMUL_PANEL;
    for (uint32_t i = 0; i < MATMUL_PANEL; i++) {
        switch (weights->type) {
        case WEIGHT_FP8:
            w[i] = fp8_scaled_down(((const uint8_t *)weights->data)[at + i]);
            break;
        case WEIGHT_BF16:
            w[i] = float_from_bf16(((const uint16_t *)weights->data)[at + i]);
            break;
        default:
            w[i] = ((const float *)weights->data)[at + i];
            break;
        }
    }
}

/* One block of one panel for rows 0..m-1: y = fma(part, s, y). */
static void run_block(const struct matmul *job, uint32_t panel, uint32_t block) {
    const struct packed_matrix *weights = job->weights;
    uint32_t first = block * QUANT_GROUP;
    uint32_t count = weights->cols - first < QUANT_GROUP ? weights->cols - first : QUANT_GROUP;
    float w[QUANT_GROUP][MATMUL_PANEL];
    for (uint32_t k = 0; k < count; k++)
        load_weights(weights, panel, first + k, w[k]);
    float w_scale = 1;
    if (weights->type == WEIGHT_FP8)
        w_scale = weights->scales[(size_t)(panel * MATMUL_PANEL / QUANT_GROUP) *
                                      divide_up(weights->cols, QUANT_GROUP) +
                                  block];
    float lift = weights->type == WEIGHT_FP8 ? 0x1p8f : 1;
    for (uint32_t row = 0; row < job->m; row++) {
        const float *x = job->x + row * job->x_stride + first;
        float *y = job->y + row * job->y_stride + (size_t)panel * MATMUL_PANEL;
        float s =
            job->x_scales ? job->x_scales[row * job->x_scale_stride + block] * w_scale : w_scale;
        float part[MATMUL_PANEL] = {0};
        for (uint32_t k = 0; k < count; k++)
            for (uint32_t i = 0; i < MATMUL_PANEL; i++)
                part[i] = fmaf(x[k] * lift, w[k][i], part[i]);
        for (uint32_t i = 0; i < MATMUL_PANEL; i++)
            y[i] = fmaf(part[i], s, y[i]);
    }
}

void matmul_c_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    uint32_t blocks = (uint32_t)divide_up(job->weights->cols, QUANT_GROUP);
    for (uint32_t panel = panel_first; panel < panel_first + panel_count; panel++) {
        for (uint32_t row = 0; row < job->m; row++)
            memset(job->y + row * job->y_stride + (size_t)panel * MATMUL_PANEL, 0,
                   MATMUL_PANEL * sizeof(float));
        for (uint32_t block = 0; block < blocks; block++)
            run_block(job, panel, block);
    }
}

void gemm_c_run(const struct gemm *job) {
    for (uint32_t row = 0; row < job->m; row++) {
        const float *a = job->a + row * job->a_stride;
        float *c = job->c + row * job->c_stride;
        if (!job->accumulate) memset(c, 0, job->n * sizeof(float));
        for (uint32_t k = 0; k < job->k; k++) {
            const float *b = job->b + k * job->b_stride;
            for (uint32_t i = 0; i < job->n; i++)
                c[i] = fmaf(a[k], b[i], c[i]);
        }
    }
}

/* Value `channel` of column `n` of B; 0 behind an odd last channel. */
static float gemm_bf16_b(const struct gemm_bf16 *job, uint32_t channel, uint32_t n) {
    static const uint32_t beside[] = {[BF16_ROWS] = 1, [BF16_PAIRS] = 2, [BF16_FOURS] = 4};
    uint32_t width = beside[job->layout];
    if (channel >= job->k) return 0;
    return float_from_bf16(job->b[channel / width * job->b_stride + n * width + channel % width]);
}

void gemm_bf16_c_run(const struct gemm_bf16 *job) {
    uint32_t sums = job->layout == BF16_FOURS ? 2 : 1;
    for (uint32_t row = 0; row < job->m; row++) {
        const uint16_t *a = job->a + row * job->a_stride;
        float *c = job->c + row * job->c_stride;
        for (uint32_t i = 0; i < job->n * sums; i++) {
            float sum = job->accumulate ? c[i] : 0;
            for (uint32_t k = i % sums * 2; k < job->k; k += 2 * sums)
                for (uint32_t odd = 2; odd-- > 0;)
                    sum =
                        fmaf(float_from_bf16(a[k + odd]), gemm_bf16_b(job, k + odd, i / sums), sum);
            c[i] = sum;
        }
    }
}
