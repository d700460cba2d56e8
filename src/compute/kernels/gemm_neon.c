/* SPDX-License-Identifier: Apache-2.0
 * Dense products of attention with NEON, as in gemm_avx2.c: strips of 16 columns, or 32 for one or
 * two rows. What is left of the columns goes in fours, and the last one to three to the plain C
 * twin, which has the same bits.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/neon.h"

#define ROWS 6
#define STRETCH 192 /* channels: 12 KiB of a B strip 16 wide */

struct neon_piece {
    const float *a, *b;
    float *c;
    size_t a_stride, b_stride, c_stride;
    uint32_t k;
    bool accumulate;
};

/* rows x 4 * vectors of C. */
ALWAYS_INLINE void tile(int rows, int vectors, const struct neon_piece *t) {
    float32x4_t sum[ROWS][8];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            sum[r][v] = t->accumulate ? vld1q_f32(t->c + (size_t)r * t->c_stride + 4 * (size_t)v)
                                      : vdupq_n_f32(0);
    const float *a = t->a, *b = t->b;
    for (size_t k = 0; k < t->k; k++, b += t->b_stride) {
        float32x4_t right[8];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            right[v] = vld1q_f32(b + 4 * (size_t)v);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            float32x4_t factor = vld1q_dup_f32(a + (size_t)r * t->a_stride + k);
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++)
                sum[r][v] = vfmaq_f32(sum[r][v], factor, right[v]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            vst1q_f32(t->c + (size_t)r * t->c_stride + 4 * (size_t)v, sum[r][v]);
}

/* vectors: 1, 4, or 8 for one or two rows, where more chains must be in flight. */
static void run_piece(uint32_t rows, uint32_t vectors, const struct neon_piece *t) {
    /* clang-format off */
    switch (rows + 10 * vectors) {
    case 11: tile(1, 1, t); break;
    case 12: tile(2, 1, t); break;
    case 13: tile(3, 1, t); break;
    case 14: tile(4, 1, t); break;
    case 15: tile(5, 1, t); break;
    case 16: tile(6, 1, t); break;
    case 41: tile(1, 4, t); break;
    case 42: tile(2, 4, t); break;
    case 43: tile(3, 4, t); break;
    case 44: tile(4, 4, t); break;
    case 45: tile(5, 4, t); break;
    case 46: tile(6, 4, t); break;
    case 81: tile(1, 8, t); break;
    case 82: tile(2, 8, t); break;
    default: __builtin_unreachable();
    }
    /* clang-format on */
}

static void run_stretch(const struct gemm *job, uint32_t k_first, uint32_t k_count) {
    uint32_t tiles = (uint32_t)divide_up(job->m, ROWS), columns;
    for (uint32_t n = 0; n + 4 <= job->n; n += columns) {
        uint32_t left = job->n - n;
        columns = left >= 32 && job->m <= 2 ? 32 : left >= 16 ? 16 : 4;
        for (uint32_t i = 0; i < tiles; i++) {
            uint32_t first = (uint32_t)((uint64_t)job->m * i / tiles);
            uint32_t rows = (uint32_t)((uint64_t)job->m * (i + 1) / tiles) - first;
            struct neon_piece piece = {
                .a = job->a + first * job->a_stride + k_first,
                .b = job->b + k_first * job->b_stride + n,
                .c = job->c + first * job->c_stride + n,
                .a_stride = job->a_stride,
                .b_stride = job->b_stride,
                .c_stride = job->c_stride,
                .k = k_count,
                .accumulate = job->accumulate || k_first > 0,
            };
            run_piece(rows, columns / 4, &piece);
        }
    }
}

void gemm_neon_run(const struct gemm *job) {
    uint32_t k = 0;
    do {
        uint32_t count = job->k - k < STRETCH ? job->k - k : STRETCH;
        run_stretch(job, k, count);
        k += count;
    } while (k < job->k);
    struct gemm rest = *job;
    rest.n = job->n % 4;
    rest.b += job->n - rest.n;
    rest.c += job->n - rest.n;
    if (rest.n) matmul_c_gemm_c_run(&rest);
}
