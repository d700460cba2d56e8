/* SPDX-License-Identifier: Apache-2.0
 * The levels' tables and the pieces that one level borrows from another. Private to
 * src/compute/kernels and its tests.
 */
#ifndef COMPUTE_KERNELS_TABLES_H
#define COMPUTE_KERNELS_TABLES_H

#include "compute/kernels/kernels.h"

extern const struct kernels kernels_table_c;
extern const struct kernels kernels_table_avx2;
extern const struct kernels kernels_table_avx512;
extern const struct kernels kernels_table_avx512bf16;

void matmul_c_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_avx2_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_avx512_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_avx512bf16_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);

void gemm_c_run(const struct gemm *job);
void gemm_avx2_run(const struct gemm *job);
void gemm_avx512_run(const struct gemm *job);
void gemm_bf16_c_run(const struct gemm_bf16 *job); /* the twin that states the arithmetic */
float softmax_bf16_c(uint16_t *weights, const float *scores, uint32_t count, float a, float *max,
                     float *sum);
void gemm_avx512bf16_run(const struct gemm_bf16 *job);

/* Pieces of probe.h. */
double probe_avx2_multiply(uint64_t rounds);
double probe_avx512_multiply(uint64_t rounds);
double probe_avx512bf16_multiply(uint64_t rounds);
uint64_t probe_avx2_read(const void *data, size_t bytes, uint32_t streams);

/* exp(x) = p(r) * 2^n with n = round(x / ln 2), r = x - n ln 2 (ln 2 in two parts), |r| <= 0.347,
 * and p the Taylor polynomial of degree 7 by Horner's rule with fma: its remainder is below 6e-9
 * relative, a tenth of an ulp. Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the
 * low bits. */
#define EXP_LOWEST (-87.3f)
#define EXP_HIGHEST 88.7f
#define EXP_LOG2E 0x1.715476p+0f
#define EXP_ROUNDER 0x1.8p23f
#define EXP_LN2_HIGH 0x1.62e4p-1f
#define EXP_LN2_LOW 0x1.7f7d1cp-20f
#define EXP_C7 (1.0f / 5040)
#define EXP_C6 (1.0f / 720)
#define EXP_C5 (1.0f / 120)
#define EXP_C4 (1.0f / 24)
#define EXP_C3 (1.0f / 6)

/* act_quant: the smallest |x|max that a group is taken to have, and the largest E4M3 value. */
#define QUANT_FLOOR 1e-4f
#define E4M3_MAX 448.0f
#define E4M3_NORMAL_MIN 0x1p-6f
#define E4M3_SUBNORMAL_ROUNDER 0x1.8p14f /* its ulp is 2^-9, the subnormal grid */

#endif
