/* SPDX-License-Identifier: Apache-2.0
 * The levels' tables and the pieces that one level borrows from another. Private to
 * src/compute/kernels and its tests.
 */
#pragma once

#include "compute/kernels/constants.h"
#include "compute/kernels/kernels.h"

extern const struct kernels kernels_table_c;
extern const struct kernels kernels_table_avx2;
extern const struct kernels kernels_table_avx512;
extern const struct kernels kernels_table_avx512bf16;
extern const struct kernels kernels_table_amx;
extern const struct kernels kernels_table_neon;
extern const struct kernels kernels_table_neonbf16;

void matmul_c_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_avx2_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_avx512_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_avx512bf16_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_amx_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_neon_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_neonbf16_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
/* INT8 values by codes of four bits, of one level each, and by vectors of that many bits or tiles
 * with the best instructions that the CPU has (matmul_int8.c). */
void matmul_int8_avx2_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_int8_avxvnni_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_int8_avx512_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_int8_amx_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_int8_neon_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_int8_neondot_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_int8_run_256(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_int8_run_512(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_int8_run_tiles(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_int8_run_128(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
/* The twins of BFDOT's and AMX's products, where x is representable in BF16 and the weights are no
 * floats. */
void matmul_c_bfdot_c_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void matmul_c_amx_c_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);

void matmul_c_gemm_c_run(const struct gemm *job);
void gemm_avx2_run(const struct gemm *job);
void gemm_avx512_run(const struct gemm *job);
void gemm_neon_run(const struct gemm *job);
/* The twins that state the arithmetic of VDPBF16PS, of BFDOT and of AMX. */
void matmul_c_gemm_bf16_c_run(const struct gemm_bf16 *job);
void matmul_c_gemm_bfdot_c_run(const struct gemm_bf16 *job);
void matmul_c_gemm_amx_c_run(const struct gemm_bf16 *job);
float vector_c_softmax_bf16_c(uint16_t *weights, const float *scores, uint32_t count, float a,
                              float *max, float *sum);
/* A weight times its scale, rounded to BF16: of output `out` of a panel. */
uint16_t matmul_c_bf16_weight(const struct packed_matrix *weights, uint32_t panel, uint32_t channel,
                              uint32_t out);
void vector_c_bf16_panel_c(uint16_t *pairs, const struct packed_matrix *weights, uint32_t panel);
void vector_c_bf16_pair_rows_c(uint16_t *pairs, const float *x, size_t x_stride, uint32_t rows,
                               uint32_t cols);
float vector_avx512bf16_softmax_avx512bf16_run(uint16_t *weights, const float *scores,
                                               uint32_t count, float a, float *max, float *sum);
void gemm_avx512bf16_run(const struct gemm_bf16 *job);
void gemm_amx_run(const struct gemm_bf16 *job);
void gemm_neonbf16_run(const struct gemm_bf16 *job);

/* Pieces of probe.h. */
double probe_avx2_multiply(uint64_t rounds);
double probe_avx512_multiply(uint64_t rounds);
double probe_avx512bf16_multiply(uint64_t rounds);
double probe_amx_multiply(uint64_t rounds);
double probe_neon_multiply(uint64_t rounds);
double probe_neonbf16_multiply(uint64_t rounds);
uint64_t probe_avx2_read(const void *data, size_t bytes, uint32_t streams);
uint64_t probe_neon_read(const void *data, size_t bytes, uint32_t streams);
