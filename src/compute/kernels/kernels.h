/* SPDX-License-Identifier: Apache-2.0
 * The kernel table: chosen once from CPU flags (or a lower level by mask), then only read. Each
 * entry has a plain C twin (`*_c.c`) that states its arithmetic; AVX2, AVX-512 and NEON give the
 * same bits.
 *
 * Reductions over n use 16 running lanes: lane i takes elements i, i+16, i+32, ... in ascending
 * order; a short tail adds nothing to the lanes it lacks; then lanes are combined as l[i] = l[i] op
 * l[i+8], then i+4, i+2, i+1.
 */
#pragma once

#include "base/status.h"
#include "compute/kernels/matmul.h"

/* A processor has some of them: those of x86-64 or those of arm64, up to its best. */
enum kernel_level {
    KERNEL_LEVEL_C,
    KERNEL_LEVEL_AVX2,       /* with FMA and F16C */
    KERNEL_LEVEL_AVX512,     /* with its parts F, BW, DQ and VL */
    KERNEL_LEVEL_AVX512BF16, /* with VBMI, too */
    KERNEL_LEVEL_AMX,        /* AVX512BF16 and tiles of BF16 */
    KERNEL_LEVEL_NEON,       /* Advanced SIMD of arm64 */
    KERNEL_LEVEL_NEONBF16,   /* with BFDOT, too (FEAT_BF16) */
    KERNEL_LEVEL_COUNT
};

/* The choices of options that name a level. */
#define KERNEL_LEVEL_CHOICES "auto|c|avx2|avx512|avx512bf16|amx|neon|neonbf16"

#define CORE_BLOCKS_MAX 2 /* of all levels' core_blocks */
#define BF16_PAIR_ROWS 32 /* bf16_pair_rows fills up to a multiple */

struct kernels {
    enum kernel_level level;
    const char *name;     /* as in KERNEL_LEVEL_CHOICES */
    const char *numerics; /* levels with the same text give the same bits: "fma1", "bf16dot3",
                           * "amx3" or "bfdot2" */

    /* Panels [panel_first, panel_first + panel_count) of a product: threads share one job. */
    void (*matmul)(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
    void (*gemm)(const struct gemm *job);

    /* y = x / sqrt(mean(x^2) + epsilon) * weight; y may be x. */
    void (*rmsnorm)(float *y, const float *x, const float *weight, uint32_t n, float epsilon);
    /* y = silu(gate) * up, silu(z) = z / (1 + exp(-z)); y may be gate or up. */
    void (*silu_multiply)(float *y, const float *gate, const float *up, uint32_t n);
    /* y = y + a * x by fma. */
    void (*add_scaled)(float *y, const float *x, float a, uint32_t n);
    void (*scale)(float *y, float a, uint32_t n);
    float (*maximum)(const float *x, uint32_t n);
    /* y[i] = exp(x[i] * a - b) with one fma; returns the sum of y. Underflows to 0. y may be x. */
    float (*exp_sum)(float *y, const float *x, float a, float b, uint32_t n);

    /* Values rounded to BF16, kept as floats; y may be x. */
    void (*round_bf16)(float *y, const float *x, uint32_t n);
    void (*bf16_from_float)(uint16_t *y, const float *x, uint32_t n);
    void (*float_from_bf16)(float *y, const uint16_t *x, uint32_t n);
    /* y[i] = y[i] + s rounded to BF16, where s is the sum of a[k] * x[k][i] over k < count,
     * ascending, by fma from 0. */
    void (*add_sum_bf16)(float *y, const uint16_t *const *x, const float *a, uint32_t count,
                         uint32_t n);
    /* y[i] = sum of a[k] * max(0, x[k][i]) over k < rows, ascending, by fma from 0; x is
     * [rows][x_stride], and a NaN in it counts as 0. */
    void (*sum_positive)(float *y, const float *x, size_t x_stride, const float *a, uint32_t rows,
                         uint32_t n);
    /* y[i] = value of the E4M3 code times scale; the NaN codes count as 480 and -480. */
    void (*float_from_e4m3)(float *y, const uint8_t *codes, float scale, uint32_t n);
    /* 1x128 groups (the last may be short): s = max(|x|max, 1e-4) / 448, codes[i] = value of
     * e4m3(x[i] / s) as a float; scales[ceil(n / 128)]. scale_power_of_two: s = 2^ceil(log2(s)),
     * the "ue8m0" format. codes may be x. DeepSeek-V3 inference/kernel.py act_quant. */
    void (*quantize_e4m3)(float *codes, float *scales, const float *x, uint32_t n,
                          bool scale_power_of_two);
    /* Groups of INT8_GROUP: s = max(|x|max, 2^-100) / 127, codes[i] = x[i] / s rounded to the
     * nearest integer, ties to even; scales[n / INT8_GROUP], n a multiple of it. In a group with a
     * NaN or an infinity s is NaN and codes are 0. */
    void (*quantize_int8)(int8_t *codes, float *scales, const float *x, uint32_t n);
    /* y[c][r] = x[r][c], r < rows, c < cols; columns rows..y_stride-1 are left alone. */
    void (*transpose)(float *y, size_t y_stride, const float *x, size_t x_stride, uint32_t rows,
                      uint32_t cols);
    /* Rotates the pairs of x[2 * pairs] in place by angles, of which angles[2 * pairs] has all
     * cosines, then all sines. Pairs are (2i, 2i + 1) if interleaved, else (i, i + pairs). */
    void (*rotate)(float *x, const float *angles, uint32_t pairs, bool interleaved);

    /* NULL where the numerics are fma1: its attention computes in floats. */
    void (*gemm_bf16)(const struct gemm_bf16 *job);
    /* The layout of B with which gemm_bf16 is fastest where B has fewer columns than a vector:
     * BF16_FOURS, or BF16_PAIRS as elsewhere. */
    enum bf16_layout few_columns;
    /* KV blocks that attention turns from scores into weights at once, relative to one maximum: a
     * part of the numerics. Where there are several, gemm_bf16 takes pieces. */
    uint32_t core_blocks;
    /* The weights of a panel, times their scales and rounded to BF16, as pairs of channels:
     * [cols / 2][32][2]. cols is even. */
    void (*bf16_panel)(uint16_t *pairs, const struct packed_matrix *weights, uint32_t panel);
    /* pairs[r / 2][c][r % 2] = BF16 of x[r][c], and zeros up to a multiple of BF16_PAIR_ROWS rows.
     * */
    void (*bf16_pair_rows)(uint16_t *pairs, const float *x, size_t x_stride, uint32_t rows,
                           uint32_t cols);
    /* Online softmax over some more scores: weights[i] = BF16 of exp(a * scores[i] - a * maximum),
     * where *max is the largest so far, and 0 from count to the next multiple of 64. *sum follows;
     * what was gathered so far is to be multiplied by the result. 1 <= count <= 64 * core_blocks.
     * */
    float (*softmax_bf16)(uint16_t *weights, const float *scores, uint32_t count, float a,
                          float *max, float *sum);
};

/* The best level this CPU has, and the best with the numerics fma1. */
enum kernel_level kernels_detect(void);
enum kernel_level kernels_detect_fma1(void);

/* Whether this CPU has it. */
bool kernels_has(enum kernel_level level);

/* Level of a name (KERNEL_LEVEL_CHOICES). */
enum status kernels_level_named(const char *name, enum kernel_level *level_out,
                                struct error *error);

/* The level named, or the best this CPU has if that is lower; STATUS_UNSUPPORTED if it is another
 * machine's. */
enum status kernels_level_masked(const char *mask, enum kernel_level *level_out,
                                 struct error *error);

/* The table of a level; STATUS_UNSUPPORTED if this CPU lacks it. Tables are static. */
enum status kernels_select(enum kernel_level level, const struct kernels **kernels_out,
                           struct error *error);

/* exp(x) as all kernels compute it (plain C): about 1 ulp, 0 below -87.3, inf above 88.7. */
float kernels_exp(float x);
