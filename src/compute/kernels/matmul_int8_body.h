/* SPDX-License-Identifier: Apache-2.0
 * The leaf of matmul_blocked.h that multiplies INT8 values by codes of four bits: the same text for
 * AVX2, AVX-VNNI, AVX-512-VNNI and NEON. Each matmul_int8_*.c includes its ints_*.h first, which
 * defines lanes of INTS outputs, and RUN, its function's name; to others this is empty.
 *
 * A lane has four channels of an output in bytes, as the words of packed codes have them: 0, 4, 1
 * and 5 of eight in the lower halves of the bytes, 2, 6, 3 and 7 in the upper ones. x lies in that
 * order. Where an instruction takes unsigned codes, a constant is added to all of them, and that
 * many times the sum of x is subtracted at the end. All integers are exact, and so is a sum of 32
 * channels as a float: only matmul.h's scales round.
 */
#pragma once

#ifdef INTS
#include "compute/kernels/code_values.h"
#include "compute/kernels/matmul_blocked.h"

#define ROWS 6
#define WHOLE_ROWS 2  /* most rows of a tile that is a panel wide, not 16 outputs */
#define DIRECT_ROWS 4 /* up to here codes are read from the packed weights */
#define AHEAD_BYTES 2048
#define PART INT8_GROUP
#define VECTORS_MAX (MATMUL_PANEL / INTS)

/* The constant added to a code's value. */
ALWAYS_INLINE int32_t code_offset(enum weight_type type) {
    if (!INT_CODES_UNSIGNED) return 0;
    return type == WEIGHT_MXFP4 ? 12 : 8;
}

/* A row of a block, as tiles read it: X_BYTES a channel. */
#define X_BYTES 2
struct packed_row {
    int8_t x[QUANT_GROUP];
    int32_t offset[QUANT_GROUP / PART]; /* minus code_offset times the sum of x */
    float scale[QUANT_GROUP / PART];
    char unused[(X_BYTES - 1) * QUANT_GROUP - 8 * (QUANT_GROUP / PART)];
};
_Static_assert(sizeof(struct packed_row) == X_BYTES * QUANT_GROUP, "rows are adjacent");

typedef int8_t sixteen_bytes __attribute__((vector_size(16)));

static void pack_int8(void *out, const int8_t *x, const float *scales, uint32_t count,
                      enum weight_type type) {
    struct packed_row *row = out;
    for (uint32_t i = 0; i < count; i += 16) {
        sixteen_bytes v;
        memcpy(&v, x + i, sizeof v);
        v = __builtin_shufflevector(v, v, 0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
        memcpy(row->x + i, &v, sizeof v);
    }
    for (uint32_t part = 0; part < count / PART; part++, x += PART) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < PART; i++)
            sum += x[i];
        row->offset[part] = -code_offset(type) * sum;
        row->scale[part] = scales[part] * weight_type_unit(type);
    }
}

/* The values of a type's codes, with code_offset added. */
ALWAYS_INLINE ints values_of(enum weight_type type) {
    int8_t values[16];
    for (int i = 0; i < 16; i++)
        values[i] = (int8_t)(code_values_of(type)[i] + code_offset(type));
    return ints_table(values);
}

/* Bytes of eight channels of INTS outputs: lower and upper halves. `looks_up`: codes are not the
 * values themselves. */
struct code_bytes {
    ints of[2];
};

ALWAYS_INLINE struct code_bytes code_bytes_of(bool looks_up, ints values, ints words) {
    struct code_bytes bytes = {{ints_low(words), ints_high(words)}};
    for (int i = 0; looks_up && i < 2; i++)
        bytes.of[i] = ints_look_up(values, bytes.of[i]);
    return bytes;
}

ALWAYS_INLINE bool type_looks_up(enum weight_type type) {
    return type == WEIGHT_MXFP4 || !INT_CODES_UNSIGNED;
}

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

/* [count / 4][MATMUL_PANEL][4] bytes. */
static void decode(void *out, enum weight_type type, const void *w, uint32_t count) {
    const ints values = values_of(type);
    for (size_t k = 0; k < count; k += 8)
        for (size_t i = 0; i < MATMUL_PANEL; i += INTS) {
            const char *words = (const char *)w + k * packed_channel_bytes(type) + i * 4;
            struct code_bytes codes = code_bytes_of(type_looks_up(type), values, ints_load(words));
            ints_store((char *)out + k * MATMUL_PANEL + i * 4, codes.of[0]);
            ints_store((char *)out + (k + 4) * MATMUL_PANEL + i * 4, codes.of[1]);
        }
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
