/* SPDX-License-Identifier: Apache-2.0
 * The leaf of matmul_blocked.h that multiplies INT8 values by codes of four bits: the same text for
 * AVX2, AVX-VNNI, AVX-512-VNNI and NEON. Each matmul_int8_*.c includes its ints_*.h first, which
 * defines lanes of INTS outputs, and RUN, its function's name; to others this is empty.
 * int8_rows.h says how x and codes lie.
 *
 * All integers are exact, and so is a sum of 32 channels as a float: only matmul.h's scales round.
 */
#pragma once

#ifdef INTS
#include "compute/kernels/int8_rows.h"
#include "compute/kernels/matmul_blocked.h"

#define ROWS 6
#define WHOLE_ROWS 2  /* most rows of a tile that is a panel wide, not 16 outputs */
#define DIRECT_ROWS 4 /* up to here codes are read from the packed weights */
#define AHEAD_BYTES 2048
#define VECTORS_MAX (MATMUL_PANEL / INTS)

/* The codes of channels k to k + 7 of the outputs from `out` on. */
ALWAYS_INLINE struct code_bytes load_bytes(bool decoded, enum weight_type type, ints values,
                                           const char *w, size_t k, size_t out) {
    if (decoded)
        return (struct code_bytes){{ints_load(w + k * MATMUL_PANEL + out * 4),
                                    ints_load(w + (k + 4) * MATMUL_PANEL + out * 4)}};
    const char *words = w + k * packed_channel_bytes(WEIGHT_INT4_32) + out * sizeof(uint32_t);
    __builtin_prefetch(words + AHEAD_BYTES);
    return code_bytes_of(type_looks_up(type), values, ints_load(words));
}

/* y += the sums of a part times their scales. */
ALWAYS_INLINE void end_part(int rows, int vectors, const struct packed_row *x, size_t part,
                            const uint16_t *scales, float *y, size_t y_stride,
                            ints sum[ROWS][VECTORS_MAX]) {
    floats scale[VECTORS_MAX];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        scale[v] = floats_from_bf16(scales + v * INTS);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++, y += y_stride) {
        floats of_row = floats_all(x[r].scale[part]);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            floats s = of_row * scale[v];
            floats before = floats_load(y + v * INTS);
            floats_store(y + v * INTS, floats_fma(floats_from_ints(sum[r][v]), s, before));
        }
    }
}

/* Outputs [out, out + vectors * INTS) of a panel. */
ALWAYS_INLINE void tile(bool decoded, enum weight_type type, int rows, int vectors, size_t out,
                        const struct matmul_tile *t) {
    const struct packed_row *x = t->x; /* copies, since the compiler cannot know what y is not */
    const char *w = t->w;
    const uint16_t *scales = t->group_scales + out;
    float *y = t->y + out;
    const size_t y_stride = t->y_stride, count = t->count;
    const int group_shift = t->group == PART ? 5 : 7;
    const ints values = values_of(type);
    for (int r = 0; t->first && r < rows; r++)
        memset(y + (size_t)r * y_stride, 0, (size_t)vectors * sizeof(floats));
    for (size_t first = 0; first < count; first += PART) {
        ints sum[ROWS][VECTORS_MAX];
#pragma GCC unroll 2
        for (size_t half = first; half < first + PART; half += DOTS_CHANNELS(type)) {
            dots part[ROWS][VECTORS_MAX];
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++)
                    part[r][v] = dots_zero();
            for (int eight = 0; eight < DOTS_CHANNELS(type) / 8; eight++) {
                const size_t k = half + (size_t)eight * 8;
                struct code_bytes codes[VECTORS_MAX];
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++)
                    codes[v] = load_bytes(decoded, type, values, w, k, out + (size_t)v * INTS);
#pragma GCC unroll 8
                for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
                    for (int i = 0; i < 2; i++) {
                        ints four = ints_all(x[r].x + k + (size_t)i * 4);
#pragma GCC unroll 8
                        for (int v = 0; v < vectors; v++)
                            part[r][v] = dots_add(part[r][v], codes[v].of[i], four);
                    }
            }
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++) {
                    if (half == first) sum[r][v] = ints_all(&x[r].offset[first / PART]);
                    sum[r][v] = dots_end(sum[r][v], part[r][v]);
                }
        }
        end_part(rows, vectors, x, first / PART, scales + (first >> group_shift) * MATMUL_PANEL, y,
                 y_stride, sum);
    }
}

/* Calls tile with its shape as constants: only then its arrays are registers. */
ALWAYS_INLINE void tile_of_rows(bool decoded, enum weight_type type, int rows,
                                const struct matmul_tile *t) {
    const int half = VECTORS_MAX / 2;
    if (rows <= WHOLE_ROWS) {
        tile(decoded, type, rows, VECTORS_MAX, 0, t);
        return;
    }
    tile(decoded, type, rows, half, 0, t);
    tile(decoded, type, rows, half, MATMUL_PANEL / 2, t);
}

ALWAYS_INLINE void tile_of_type(bool decoded, enum weight_type type, const struct matmul_tile *t) {
    /* clang-format off */
    switch (t->rows) {
    case 1: tile_of_rows(decoded, type, 1, t); break;
    case 2: tile_of_rows(decoded, type, 2, t); break;
    case 3: tile_of_rows(decoded, type, 3, t); break;
    case 4: tile_of_rows(decoded, type, 4, t); break;
    case 5: tile_of_rows(decoded, type, 5, t); break;
    case 6: tile_of_rows(decoded, type, 6, t); break;
    default: __builtin_unreachable();
    }
    /* clang-format on */
}

static void run_tile(const struct matmul_tile *t) {
    if (t->type == WEIGHT_MXFP4 && t->decoded)
        tile_of_type(true, WEIGHT_MXFP4, t);
    else if (t->type == WEIGHT_MXFP4)
        tile_of_type(false, WEIGHT_MXFP4, t);
    else if (t->decoded)
        tile_of_type(true, WEIGHT_INT4_32, t);
    else
        tile_of_type(false, WEIGHT_INT4_32, t);
}

void RUN(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void RUN(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    static const struct matmul_leaf leaf = {
        .tile_rows = ROWS,
        .direct_rows = DIRECT_ROWS,
        .x_bytes = X_BYTES,
        .pack_int8 = pack_int8,
        .decode = decode,
        .tile = run_tile,
    };
    matmul_blocked_run(&leaf, job, panel_first, panel_count);
}

#endif /* INTS */
