/* SPDX-License-Identifier: Apache-2.0
 * Dense products of attention with AVX2 and FMA. Channels go in stretches, so that the stretch of B
 * in use stays in the nearest cache; between stretches the chain rests in C, which changes no bit.
 */
#include "compute/kernels/tables.h"

#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define ROWS 6
#define STRETCH 192 /* channels: 12 KiB of a B strip 16 wide */

struct avx2_piece {
    const float *a, *b;
    float *c;
    size_t a_stride, b_stride, c_stride;
    uint32_t k;
    bool accumulate;
    __m256i last_mask; /* columns of the last vector */
};

ALWAYS_INLINE __m256 load(const float *from, bool last, const struct avx2_piece *t) {
    return last ? _mm256_maskload_ps(from, t->last_mask) : _mm256_loadu_ps(from);
}

/* rows x 8 * vectors of C. */
ALWAYS_INLINE void tile(int rows, int vectors, const struct avx2_piece *t) {
    __m256 sum[ROWS][4];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sum[r][v] = t->accumulate ? load(t->c + r * t->c_stride + v * 8, v == vectors - 1, t)
                                      : _mm256_setzero_ps();
    const float *a = t->a, *b = t->b;
    for (size_t k = 0; k < t->k; k++, b += t->b_stride) {
        __m256 right[4];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            right[v] = load(b + v * 8, v == vectors - 1, t);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m256 factor = _mm256_broadcast_ss(a + r * t->a_stride + k);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                sum[r][v] = _mm256_fmadd_ps(factor, right[v], sum[r][v]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            float *to = t->c + r * t->c_stride + v * 8;
            if (v == vectors - 1)
                _mm256_maskstore_ps(to, t->last_mask, sum[r][v]);
            else
                _mm256_storeu_ps(to, sum[r][v]);
        }
}

/* vectors: 1, 2, or 4 for one or two rows, where more chains must be in flight. */
static void run_piece(uint32_t rows, uint32_t vectors, const struct avx2_piece *t) {
    /* clang-format off */
    switch (rows + 10 * vectors) {
    case 11: tile(1, 1, t); break;
    case 12: tile(2, 1, t); break;
    case 13: tile(3, 1, t); break;
    case 14: tile(4, 1, t); break;
    case 15: tile(5, 1, t); break;
    case 16: tile(6, 1, t); break;
    case 21: tile(1, 2, t); break;
    case 22: tile(2, 2, t); break;
    case 23: tile(3, 2, t); break;
    case 24: tile(4, 2, t); break;
    case 25: tile(5, 2, t); break;
    case 26: tile(6, 2, t); break;
    case 41: tile(1, 4, t); break;
    case 42: tile(2, 4, t); break;
    default: __builtin_unreachable();
    }
    /* clang-format on */
}

static __m256i column_mask(uint32_t columns) {
    static const int32_t edge[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    return _mm256_loadu_si256((const __m256i *)(const void *)(edge + 8 - columns));
}

static void run_stretch(const struct gemm *job, uint32_t k_first, uint32_t k_count) {
    uint32_t tiles = (uint32_t)divide_up(job->m, ROWS);
    for (uint32_t n = 0; n < job->n;) {
        bool wide = job->m <= 2 && job->n - n >= 32;
        uint32_t columns = wide ? 32 : job->n - n < 16 ? job->n - n : 16;
        uint32_t in_last = (columns - 1) % 8 + 1;
        for (uint32_t i = 0; i < tiles; i++) {
            uint32_t first = (uint32_t)((uint64_t)job->m * i / tiles);
            uint32_t rows = (uint32_t)((uint64_t)job->m * (i + 1) / tiles) - first;
            struct avx2_piece piece = {
                .a = job->a + first * job->a_stride + k_first,
                .b = job->b + k_first * job->b_stride + n,
                .c = job->c + first * job->c_stride + n,
                .a_stride = job->a_stride,
                .b_stride = job->b_stride,
                .c_stride = job->c_stride,
                .k = k_count,
                .accumulate = job->accumulate || k_first > 0,
                .last_mask = column_mask(in_last),
            };
            run_piece(rows, (columns + 7) / 8, &piece);
        }
        n += columns;
    }
}

void gemm_avx2_run(const struct gemm *job) {
    uint32_t k = 0;
    do {
        uint32_t count = job->k - k < STRETCH ? job->k - k : STRETCH;
        run_stretch(job, k, count);
        k += count;
    } while (k < job->k);
}
