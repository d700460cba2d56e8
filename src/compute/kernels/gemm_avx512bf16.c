/* SPDX-License-Identifier: Apache-2.0
 * Dense products of attention with VDPBF16PS: gemm_avx512.c, two channels at a time. B is read as
 * it lies: rows of a KV page are paired within the tile, where the shuffles run in parallel with
 * the products.
 *
 * KERNEL_EMULATE_BF16 builds the same code without VDPBF16PS, for tests on CPUs that lack it.
 */
#include "compute/kernels/tables.h"

#include <string.h>

#include "compute/kernels/bf16_dot.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define ROWS 12       /* of a tile of two vectors: 24 of the 32 registers are sums */
#define ROWS_ALONE 16 /* of a tile of one vector: 12 chains do not quite hide the latency */
#define STRETCH 192   /* steps: 24 KiB of a B strip 32 wide */

#ifdef KERNEL_EMULATE_BF16
#define gemm_avx512bf16_run gemm_avx512bf16_emulated_run
void gemm_avx512bf16_run(const struct gemm_bf16 *job);
#endif

/* Some rows and columns of a job. Columns are sums: 32 bits of C, and of B but in BF16_ROWS. */
struct bf16_piece {
    const uint16_t *a, *b;
    float *c;
    size_t a_stride, b_stride, c_stride;
    uint32_t steps; /* of two channels; BF16_FOURS: of four */
    bool half_last; /* BF16_ROWS: the last step has one channel */
    bool accumulate;
    uint32_t in_last;      /* columns of the last vector: 1..16 */
    const uint16_t *ahead; /* BF16_ROWS: to be fetched, with the strides of b */
};

ALWAYS_INLINE __mmask16 columns_mask(const struct bf16_piece *t, bool last) {
    return last ? (__mmask16)((1u << t->in_last) - 1) : 0xFFFF;
}

/* A step's vectors of B; BF16_ROWS: of rows 2 step and 2 step + 1. */
ALWAYS_INLINE void load_step(enum bf16_layout layout, int vectors, const struct bf16_piece *t,
                             const uint16_t *b, bool half, __m512i right[8]) {
    if (layout != BF16_ROWS) {
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            right[v] = _mm512_maskz_loadu_epi32(columns_mask(t, v == vectors - 1), b + v * 32);
        return;
    }
    const __m512i low = _mm512_loadu_si512(bf16_beside);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v += 2) {
        __mmask32 mask = columns_mask(t, v >= vectors - 2);
        if (v + 1 < vectors) mask = mask << 16 | 0xFFFF;
        __m512i even = _mm512_maskz_loadu_epi16(mask, b + v * 16);
        __m512i odd = _mm512_maskz_loadu_epi16(half ? 0 : mask, b + t->b_stride + v * 16);
        right[v] = _mm512_permutex2var_epi16(even, low, odd);
        if (v + 1 < vectors) right[v + 1] = _mm512_permutex2var_epi16(even, high, odd);
    }
}

ALWAYS_INLINE void multiply_step(enum bf16_layout layout, int rows, int vectors,
                                 const struct bf16_piece *t, const uint16_t *a, const uint16_t *b,
                                 bool half, __m512 sum[ROWS_ALONE][8]) {
    __m512i right[8];
    load_step(layout, vectors, t, b, half, right);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        int64_t values = 0;
        memcpy(&values, a + r * t->a_stride, layout == BF16_FOURS ? 8 : 4);
        __m512i factor =
            layout == BF16_FOURS ? _mm512_set1_epi64(values) : _mm512_set1_epi32((int32_t)values);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            sum[r][v] = bf16_dot_pairs(sum[r][v], right[v], factor);
    }
}

/* rows x 16 * vectors of C. */
ALWAYS_INLINE void tile(enum bf16_layout layout, int rows, int vectors,
                        const struct bf16_piece *t) {
    __m512 sum[ROWS_ALONE][8];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            sum[r][v] = t->accumulate ? _mm512_maskz_loadu_ps(columns_mask(t, v == vectors - 1),
                                                              t->c + r * t->c_stride + v * 16)
                                      : _mm512_setzero_ps();
    const uint16_t *a = t->a, *b = t->b, *ahead = t->ahead;
    uint32_t a_step = layout == BF16_FOURS ? 4 : 2, whole = t->steps - t->half_last;
    size_t b_step = layout == BF16_ROWS ? 2 * t->b_stride : t->b_stride;
    for (uint32_t step = 0; step < whole; step++, a += a_step, b += b_step) {
        multiply_step(layout, rows, vectors, t, a, b, false, sum);
        if (layout != BF16_ROWS) continue;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v += 2) {
            _mm_prefetch((const char *)(ahead + v * 16), _MM_HINT_T0);
            _mm_prefetch((const char *)(ahead + t->b_stride + v * 16), _MM_HINT_T0);
        }
        ahead += b_step;
    }
    if (layout == BF16_ROWS && t->half_last)
        multiply_step(layout, rows, vectors, t, a, b, true, sum);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            _mm512_mask_storeu_ps(t->c + r * t->c_stride + v * 16,
                                  columns_mask(t, v == vectors - 1), sum[r][v]);
}

/* Calls tile with the rows and vectors as constants: only then its arrays are registers. */
ALWAYS_INLINE void run_tile(enum bf16_layout layout, uint32_t rows, uint32_t vectors,
                            const struct bf16_piece *t) {
    /* clang-format off */
    switch (vectors * 100 + rows) {
    case 101: tile(layout, 1, 1, t); break;
    case 102: tile(layout, 2, 1, t); break;
    case 103: tile(layout, 3, 1, t); break;
    case 104: tile(layout, 4, 1, t); break;
    case 105: tile(layout, 5, 1, t); break;
    case 106: tile(layout, 6, 1, t); break;
    case 107: tile(layout, 7, 1, t); break;
    case 108: tile(layout, 8, 1, t); break;
    case 109: tile(layout, 9, 1, t); break;
    case 110: tile(layout, 10, 1, t); break;
    case 111: tile(layout, 11, 1, t); break;
    case 112: tile(layout, 12, 1, t); break;
    case 113: tile(layout, 13, 1, t); break;
    case 114: tile(layout, 14, 1, t); break;
    case 115: tile(layout, 15, 1, t); break;
    case 116: tile(layout, 16, 1, t); break;
    case 201: tile(layout, 1, 2, t); break;
    case 202: tile(layout, 2, 2, t); break;
    case 203: tile(layout, 3, 2, t); break;
    case 204: tile(layout, 4, 2, t); break;
    case 205: tile(layout, 5, 2, t); break;
    case 206: tile(layout, 6, 2, t); break;
    case 207: tile(layout, 7, 2, t); break;
    case 208: tile(layout, 8, 2, t); break;
    case 209: tile(layout, 9, 2, t); break;
    case 210: tile(layout, 10, 2, t); break;
    case 211: tile(layout, 11, 2, t); break;
    case 212: tile(layout, 12, 2, t); break;
    case 801: tile(layout, 1, 8, t); break; /* few rows: enough chains in flight */
    case 802: tile(layout, 2, 8, t); break;
    case 803: tile(layout, 3, 8, t); break;
    default: __builtin_unreachable();
    }
    /* clang-format on */
}

static void run_layout(enum bf16_layout layout, uint32_t rows, uint32_t vectors,
                       const struct bf16_piece *t) {
    if (layout == BF16_ROWS)
        run_tile(BF16_ROWS, rows, vectors, t);
    else if (layout == BF16_PAIRS)
        run_tile(BF16_PAIRS, rows, vectors, t);
    else
        run_tile(BF16_FOURS, rows, vectors, t);
}

static void run_stretch(const struct gemm_bf16 *job, uint32_t first_step, uint32_t steps) {
    uint32_t a_step = job->layout == BF16_FOURS ? 4 : 2;
    uint32_t b_rows = job->layout == BF16_ROWS ? 2 : 1,
             b_columns = job->layout == BF16_ROWS ? 1 : 2;
    uint32_t width = job->layout == BF16_FOURS ? 2 * job->n : job->n;
    for (uint32_t n = 0, columns; n < width; n += columns) {
        bool wide = job->m <= 3 && width - n >= 128;
        columns = width - n < 32 ? width - n : wide ? 128 : 32;
        uint32_t tiles = (uint32_t)divide_up(job->m, columns <= 16 ? ROWS_ALONE : ROWS);
        for (uint32_t i = 0; i < tiles; i++) {
            uint32_t first = (uint32_t)((uint64_t)job->m * i / tiles);
            struct bf16_piece piece = {
                .a = job->a + first * job->a_stride + (size_t)first_step * a_step,
                .b = job->b + (size_t)first_step * b_rows * job->b_stride + n * b_columns,
                .c = job->c + first * job->c_stride + n,
                .a_stride = job->a_stride,
                .b_stride = job->b_stride,
                .c_stride = job->c_stride,
                .steps = steps,
                .half_last = (first_step + steps) * a_step > job->k,
                .accumulate = job->accumulate || first_step > 0,
                .in_last = (columns - 1) % 16 + 1,
            };
            /* One tile of a strip of B fetches for all; what is near already costs the others
             * little. */
            size_t at = (size_t)first_step * b_rows * job->b_stride + n * b_columns;
            piece.ahead = job->ahead && i == 0 ? job->ahead[0] + at : piece.b;
            run_layout(job->layout, (uint32_t)((uint64_t)job->m * (i + 1) / tiles) - first,
                       (columns + 15) / 16, &piece);
        }
    }
}

void gemm_avx512bf16_run(const struct gemm_bf16 *job) {
    uint32_t steps = (uint32_t)divide_up(job->k, job->layout == BF16_FOURS ? 4 : 2), first = 0;
    do {
        uint32_t count = steps - first < STRETCH ? steps - first : STRETCH;
        run_stretch(job, first, count);
        first += count;
    } while (first < steps);
}
