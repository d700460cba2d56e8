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
#include <string.h>

#include "base/number.h"
#include "compute/kernels/lanes.h"

#define STRETCH 192 /* channels: 24 KiB of a strip of B 32 columns wide */

enum gemm_values { VALUES_FLOAT, VALUES_A_BF16, VALUES_B_BF16 };

struct gemm_piece {
    enum gemm_values values;
    const char *a, *b;
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

ALWAYS_INLINE size_t a_bytes(enum gemm_values values) {
    return values == VALUES_A_BF16 ? sizeof(uint16_t) : sizeof(float);
}

ALWAYS_INLINE size_t b_bytes(enum gemm_values values) {
    return values == VALUES_B_BF16 ? sizeof(uint16_t) : sizeof(float);
}

/* Vector v of a channel of B. */
ALWAYS_INLINE lanes load_b(enum gemm_values values, const char *b, int v, int vectors, bool whole,
                           const struct gemm_piece *t) {
    if (values != VALUES_B_BF16)
        return load_columns((const float *)(const void *)b, v, vectors, whole, t);
    return load_bf16((const uint16_t *)(const void *)b + v * LANES,
                     whole || v < vectors - 1 ? LANES : t->in_last);
}

/* The values of A's channels at `from` for all columns: one float, or two BF16 values, which are
 * loaded as one. */
ALWAYS_INLINE lanes_bits load_a(const char *from) {
    float bits;
    memcpy(&bits, from, sizeof bits);
    return (lanes_bits)lanes_all(bits);
}

ALWAYS_INLINE lanes a_channel(enum gemm_values values, lanes_bits loaded, int channel) {
    if (values != VALUES_A_BF16) return (lanes)loaded;
    return channel ? (lanes)(loaded & 0xFFFF0000u) : (lanes)(loaded << 16);
}

/* rows x LANES * vectors of C. */
ALWAYS_INLINE void tile(enum gemm_values values, int rows, int vectors, bool whole,
                        const struct gemm_piece *t) {
    const int step = values == VALUES_A_BF16 ? 2 : 1; /* channels */
    const size_t b_channel = t->b_stride * b_bytes(values);
    lanes sum[NARROW_ROWS][WIDE_VECTORS];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            sum[r][v] = t->accumulate
                            ? load_columns(t->c + (size_t)r * t->c_stride, v, vectors, whole, t)
                            : lanes_all(0);
    const char *a[NARROW_ROWS / ROWS_OF_POINTER];
    size_t row_bytes = t->a_stride * a_bytes(values);
#pragma GCC unroll 16
    for (int g = 0; g < NARROW_ROWS / ROWS_OF_POINTER; g++) {
        a[g] = t->a + (size_t)(g * ROWS_OF_POINTER) * row_bytes;
        __asm__("" : "+r"(a[g])); /* not to be derived from each other again, row by row */
    }
    const char *b = t->b;
    size_t k = 0;
#pragma GCC unroll 2
    for (; k + (size_t)step <= t->k; k += (size_t)step, b += (size_t)step * b_channel) {
        lanes right[2][WIDE_VECTORS];
#pragma GCC unroll 2
        for (int c = 0; c < step; c++)
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++)
                right[c][v] = load_b(values, b + (size_t)c * b_channel, v, vectors, whole, t);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const char *from = a[r / ROWS_OF_POINTER] + r % ROWS_OF_POINTER * row_bytes;
            lanes_bits loaded = load_a(from + k * a_bytes(values));
#pragma GCC unroll 2
            for (int c = 0; c < step; c++)
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++)
                    sum[r][v] = lanes_fma(a_channel(values, loaded, c), right[c][v], sum[r][v]);
        }
    }
    if (k < t->k) { /* the last channel of an odd number */
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            uint16_t last;
            memcpy(&last, t->a + (size_t)r * row_bytes + k * sizeof last, sizeof last);
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++)
                sum[r][v] = lanes_fma(lanes_all(float_from_bf16(last)),
                                      load_b(values, b, v, vectors, whole, t), sum[r][v]);
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
ALWAYS_INLINE void tile_of_rows(enum gemm_values values, int rows, uint32_t vectors,
                                const struct gemm_piece *t) {
    if (rows > NARROW_ROWS) __builtin_unreachable();
    if (values != VALUES_A_BF16 && rows <= WIDE_ROWS && vectors == WIDE_VECTORS)
        tile(values, rows, WIDE_VECTORS, true, t);
    else if (rows <= ROWS && vectors == VECTORS && t->in_last == LANES)
        tile(values, rows, VECTORS, true, t);
    else if (rows <= ROWS && vectors == VECTORS)
        tile(values, rows, VECTORS, false, t);
    else if (t->in_last == LANES)
        tile(values, rows, 1, true, t);
    else
        tile(values, rows, 1, false, t);
}

ALWAYS_INLINE void tile_of_values(int rows, uint32_t vectors, const struct gemm_piece *t) {
    if (t->values == VALUES_FLOAT)
        tile_of_rows(VALUES_FLOAT, rows, vectors, t);
    else if (t->values == VALUES_A_BF16)
        tile_of_rows(VALUES_A_BF16, rows, vectors, t);
    else
        tile_of_rows(VALUES_B_BF16, rows, vectors, t);
}

static void run_piece(uint32_t rows, uint32_t vectors, const struct gemm_piece *t) {
    /* clang-format off */
    switch (rows) {
    case 1: tile_of_values(1, vectors, t); break;
    case 2: tile_of_values(2, vectors, t); break;
    case 3: tile_of_values(3, vectors, t); break;
    case 4: tile_of_values(4, vectors, t); break;
    case 5: tile_of_values(5, vectors, t); break;
    case 6: tile_of_values(6, vectors, t); break;
    case 7: tile_of_values(7, vectors, t); break;
    case 8: tile_of_values(8, vectors, t); break;
    case 9: tile_of_values(9, vectors, t); break;
    case 10: tile_of_values(10, vectors, t); break;
    case 11: tile_of_values(11, vectors, t); break;
    case 12: tile_of_values(12, vectors, t); break;
    default: __builtin_unreachable();
    }
    /* clang-format on */
}

/* Vectors of the tile for `left` columns: all of a tile's, though the last may lack columns, or
 * one. */
static uint32_t vectors_for(enum gemm_values values, uint32_t rows, uint32_t left) {
    if (values != VALUES_A_BF16 && rows <= WIDE_ROWS && left >= WIDE_VECTORS * LANES)
        return WIDE_VECTORS;
    return left > (VECTORS - 1) * LANES ? VECTORS : 1;
}

static void run_stretch(const struct gemm *job, uint32_t k_first, uint32_t k_count) {
    const enum gemm_values values = job->a_bf16   ? VALUES_A_BF16
                                    : job->b_bf16 ? VALUES_B_BF16
                                                  : VALUES_FLOAT;
    const char *a = job->a_bf16 ? (const char *)job->a_bf16 : (const char *)job->a;
    const char *b = job->b_bf16 ? (const char *)job->b_bf16 : (const char *)job->b;
    for (uint32_t n = 0, vectors; n < job->n; n += vectors * LANES) {
        vectors = vectors_for(values, job->m, job->n - n);
        uint32_t tiles = (uint32_t)divide_up(job->m, vectors == 1 ? NARROW_ROWS : ROWS);
        uint32_t left = job->n - n - (vectors - 1) * LANES; /* from the last vector on */
        for (uint32_t i = 0; i < tiles; i++) {
            uint32_t first = (uint32_t)((uint64_t)job->m * i / tiles);
            struct gemm_piece piece = {
                .values = values,
                .a = a + (first * job->a_stride + k_first) * a_bytes(values),
                .b = b + (k_first * job->b_stride + n) * b_bytes(values),
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
