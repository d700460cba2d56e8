/* SPDX-License-Identifier: Apache-2.0
 * Dense products of attention with AVX-512. Channels go in stretches, so that the stretch of B in
 * use stays in the nearest cache; between stretches the chain rests in C, which changes no bit.
 */
#include "compute/kernels/tables.h"

#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define ROWS 12
#define ROWS_OF_POINTER 3 /* an address takes one, two or no strides in addition to its base */
#define STRETCH 192       /* channels: 24 KiB of a B strip 32 wide */

struct avx512_piece {
    const float *a, *b;
    float *c;
    size_t a_stride, b_stride, c_stride;
    uint32_t k;
    bool accumulate;
    __mmask16 last_mask; /* columns of the last vector */
};

/* rows x 16 * vectors of C. */
ALWAYS_INLINE void tile(int rows, int vectors, const struct avx512_piece *t) {
    __m512 sum[ROWS][8];
    __mmask16 last = t->last_mask;
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            sum[r][v] = t->accumulate ? _mm512_maskz_loadu_ps(v == vectors - 1 ? last : 0xFFFF,
                                                              t->c + r * t->c_stride + v * 16)
                                      : _mm512_setzero_ps();
    const char *a[ROWS / ROWS_OF_POINTER];
    size_t row_bytes = t->a_stride * sizeof(float);
#pragma GCC unroll 4
    for (int g = 0; g < ROWS / ROWS_OF_POINTER; g++) {
        a[g] = (const char *)(t->a + (size_t)(g * ROWS_OF_POINTER) * t->a_stride);
        __asm__("" : "+r"(a[g])); /* not to be derived from each other again, row by row */
    }
    const float *b = t->b;
#pragma GCC unroll 2
    for (size_t k = 0; k < t->k; k++, b += t->b_stride) {
        __m512 right[8];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            right[v] = _mm512_maskz_loadu_ps(v == vectors - 1 ? last : 0xFFFF, b + v * 16);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            const char *from = a[r / ROWS_OF_POINTER] + r % ROWS_OF_POINTER * row_bytes;
            __m512 factor = _mm512_set1_ps(((const float *)(const void *)from)[k]);
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++)
                sum[r][v] = _mm512_fmadd_ps(factor, right[v], sum[r][v]);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            _mm512_mask_storeu_ps(t->c + r * t->c_stride + v * 16, v == vectors - 1 ? last : 0xFFFF,
                                  sum[r][v]);
}

static void run_narrow(uint32_t rows, uint32_t vectors, const struct avx512_piece *t) {
    /* clang-format off */
    switch (vectors == 2 ? rows : rows + 100) {
    case 1: tile(1, 2, t); break;
    case 2: tile(2, 2, t); break;
    case 3: tile(3, 2, t); break;
    case 4: tile(4, 2, t); break;
    case 5: tile(5, 2, t); break;
    case 6: tile(6, 2, t); break;
    case 7: tile(7, 2, t); break;
    case 8: tile(8, 2, t); break;
    case 9: tile(9, 2, t); break;
    case 10: tile(10, 2, t); break;
    case 11: tile(11, 2, t); break;
    case 12: tile(12, 2, t); break;
    case 101: tile(1, 1, t); break;
    case 102: tile(2, 1, t); break;
    case 103: tile(3, 1, t); break;
    case 104: tile(4, 1, t); break;
    case 105: tile(5, 1, t); break;
    case 106: tile(6, 1, t); break;
    case 107: tile(7, 1, t); break;
    case 108: tile(8, 1, t); break;
    case 109: tile(9, 1, t); break;
    case 110: tile(10, 1, t); break;
    case 111: tile(11, 1, t); break;
    case 112: tile(12, 1, t); break;
    default: __builtin_unreachable();
    }
    /* clang-format on */
}

/* Few rows: more columns at once, so that enough chains are in flight. */
static void run_wide(uint32_t rows, const struct avx512_piece *t) {
    /* clang-format off */
    switch (rows) {
    case 1: tile(1, 8, t); break;
    case 2: tile(2, 8, t); break;
    default: tile(3, 8, t); break;
    }
    /* clang-format on */
}

static void run_stretch(const struct gemm *job, uint32_t k_first, uint32_t k_count) {
    uint32_t tiles = (uint32_t)divide_up(job->m, ROWS);
    for (uint32_t n = 0; n < job->n;) {
        bool wide = job->m <= 3 && job->n - n >= 128;
        uint32_t columns = job->n - n < 32 ? job->n - n : wide ? 128 : 32;
        uint32_t in_last = (columns - 1) % 16 + 1;
        for (uint32_t i = 0; i < tiles; i++) {
            uint32_t first = (uint32_t)((uint64_t)job->m * i / tiles);
            uint32_t rows = (uint32_t)((uint64_t)job->m * (i + 1) / tiles) - first;
            struct avx512_piece piece = {
                .a = job->a + first * job->a_stride + k_first,
                .b = job->b + k_first * job->b_stride + n,
                .c = job->c + first * job->c_stride + n,
                .a_stride = job->a_stride,
                .b_stride = job->b_stride,
                .c_stride = job->c_stride,
                .k = k_count,
                .accumulate = job->accumulate || k_first > 0,
                .last_mask = (__mmask16)((1u << in_last) - 1),
            };
            if (wide)
                run_wide(rows, &piece);
            else
                run_narrow(rows, (columns + 15) / 16, &piece);
        }
        n += columns;
    }
}

void gemm_avx512_run(const struct gemm *job) {
    uint32_t k = 0;
    do {
        uint32_t count = job->k - k < STRETCH ? job->k - k : STRETCH;
        run_stretch(job, k, count);
        k += count;
    } while (k < job->k);
}
