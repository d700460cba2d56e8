/* SPDX-License-Identifier: Apache-2.0
 * Dense products of attention: the same text for AVX2, AVX-512 and NEON. Channels go in stretches,
 * so that the stretch of B in use stays in the nearest cache; between stretches the chain rests in
 * C, which changes no bit. Each gemm_*.c includes its lanes and defines the shapes of its tiles
 * first; to others this is empty:
 *
 *   ROWS, VECTORS             of a tile
 *   NARROW_ROWS               of a tile of one vector
 *   WIDE_ROWS, WIDE_VECTORS   of a tile of few rows, where more chains must be in flight
 *   ROWS_OF_POINTER           rows of A that one pointer reaches
 */
#pragma once

#ifdef LANES
#include "compute/kernels/lanes.h"

#define STRETCH 192 /* channels: 24 KiB of a strip of B 32 columns wide */

struct gemm_piece {
    const float *a, *b;
    float *c;
    size_t a_stride, b_stride, c_stride;
    uint32_t k;
    bool accumulate;
    uint32_t in_last; /* columns of the last vector */
};

/* Vector v of `vectors`, the last of which may lack columns if the tile is not `whole`. */
ALWAYS_INLINE lanes load_columns(const float *from, int v, int vectors, bool whole,
                                 const struct gemm_piece *t) {
    return whole || v < vectors - 1 ? lanes_load(from + v * LANES)
                                    : lanes_load_some(from + v * LANES, t->in_last, 0);
}

/* rows x LANES * vectors of C. */
ALWAYS_INLINE void tile(int rows, int vectors, bool whole, const struct gemm_piece *t) {
    lanes sum[NARROW_ROWS][WIDE_VECTORS];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            sum[r][v] = t->accumulate
                            ? load_columns(t->c + (size_t)r * t->c_stride, v, vectors, whole, t)
                            : lanes_all(0);
    const char *a[NARROW_ROWS / ROWS_OF_POINTER];
    size_t row_bytes = t->a_stride * sizeof(float);
#pragma GCC unroll 16
    for (int g = 0; g < NARROW_ROWS / ROWS_OF_POINTER; g++) {
        a[g] = (const char *)(t->a + (size_t)(g * ROWS_OF_POINTER) * t->a_stride);
        __asm__("" : "+r"(a[g])); /* not to be derived from each other again, row by row */
    }
    const float *b = t->b;
#pragma GCC unroll 2
    for (size_t k = 0; k < t->k; k++, b += t->b_stride) {
        lanes right[WIDE_VECTORS];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            right[v] = load_columns(b, v, vectors, whole, t);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const char *from = a[r / ROWS_OF_POINTER] + r % ROWS_OF_POINTER * row_bytes;
            lanes factor = lanes_all(((const float *)(const void *)from)[k]);
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++)
                sum[r][v] = lanes_fma(factor, right[v], sum[r][v]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            float *to = t->c + (size_t)r * t->c_stride + v * LANES;
            if (whole || v < vectors - 1)
                lanes_store(to, sum[r][v]);
            else
                lanes_store_some(to, sum[r][v], t->in_last);
        }
}

/* Calls tile with its shape as constants: only then its arrays are registers. */
ALWAYS_INLINE void tile_of_rows(int rows, uint32_t vectors, const struct gemm_piece *t) {
    if (rows > NARROW_ROWS) __builtin_unreachable();
    if (rows <= WIDE_ROWS && vectors == WIDE_VECTORS)
        tile(rows, WIDE_VECTORS, true, t);
    else if (rows <= ROWS && vectors == VECTORS && t->in_last == LANES)
        tile(rows, VECTORS, true, t);
    else if (rows <= ROWS && vectors == VECTORS)
        tile(rows, VECTORS, false, t);
    else if (t->in_last == LANES)
        tile(rows, 1, true, t);
    else
        tile(rows, 1, false, t);
}

static void run_piece(uint32_t rows, uint32_t vectors, const struct gemm_piece *t) {
    /* clang-format off */
    switch (rows) {
    case 1: tile_of_rows(1, vectors, t); break;
    case 2: tile_of_rows(2, vectors, t); break;
    case 3: tile_of_rows(3, vectors, t); break;
    case 4: tile_of_rows(4, vectors, t); break;
    case 5: tile_of_rows(5, vectors, t); break;
    case 6: tile_of_rows(6, vectors, t); break;
    case 7: tile_of_rows(7, vectors, t); break;
    case 8: tile_of_rows(8, vectors, t); break;
    case 9: tile_of_rows(9, vectors, t); break;
    case 10: tile_of_rows(10, vectors, t); break;
    case 11: tile_of_rows(11, vectors, t); break;
    case 12: tile_of_rows(12, vectors, t); break;
    default: __builtin_unreachable();
    }
    /* clang-format on */
}

/* Vectors of the tile for `left` columns: all of a tile's, though the last may lack columns, or
 * one. */
static uint32_t vectors_for(uint32_t rows, uint32_t left) {
    if (rows <= WIDE_ROWS && left >= WIDE_VECTORS * LANES) return WIDE_VECTORS;
    return left > (VECTORS - 1) * LANES ? VECTORS : 1;
}

static void run_stretch(const struct gemm *job, uint32_t k_first, uint32_t k_count) {
    for (uint32_t n = 0, vectors; n < job->n; n += vectors * LANES) {
        vectors = vectors_for(job->m, job->n - n);
        uint32_t tiles = (uint32_t)divide_up(job->m, vectors == 1 ? NARROW_ROWS : ROWS);
        uint32_t left = job->n - n - (vectors - 1) * LANES; /* from the last vector on */
        for (uint32_t i = 0; i < tiles; i++) {
            uint32_t first = (uint32_t)((uint64_t)job->m * i / tiles);
            struct gemm_piece piece = {
                .a = job->a + first * job->a_stride + k_first,
                .b = job->b + k_first * job->b_stride + n,
                .c = job->c + first * job->c_stride + n,
                .a_stride = job->a_stride,
                .b_stride = job->b_stride,
                .c_stride = job->c_stride,
                .k = k_count,
                .accumulate = job->accumulate || k_first > 0,
                .in_last = left < LANES ? left : LANES,
            };
            run_piece((uint32_t)((uint64_t)job->m * (i + 1) / tiles) - first, vectors, &piece);
        }
    }
}

static void gemm(const struct gemm *job) {
    uint32_t k = 0;
    do {
        uint32_t count = job->k - k < STRETCH ? job->k - k : STRETCH;
        run_stretch(job, k, count);
        k += count;
    } while (k < job->k);
}

#endif /* LANES */
