/* SPDX-License-Identifier: Apache-2.0
 * The leaf of matmul_blocked.h that multiplies floats: the same text for AVX2, AVX-512 and NEON.
 * The sums of a few rows and 16, 32 or 64 outputs stay in registers over a block of 128 channels,
 * or over a group of them. Each matmul_*.c includes its lanes first and says how its instructions
 * make floats of weights; to others this is empty:
 *
 *   ROWS, WHOLE_ROWS, PAIR_ROWS   most rows of a tile; of one a panel wide, if not half a panel;
 *                                 of one two panels wide
 *   load_16                       16 weights of a channel, from an output of the panel on
 *   look_ahead                    what is done with each channel for what comes next
 *   lane_codes                    codes of LANES outputs and eight channels
 *   load_codes, next_code         the channels' floats, in ascending order
 *   decode_fp8, run_fp8_tile      behind the include
 */
#pragma once

#ifdef LANES
#include "compute/kernels/lanes.h"
#include "compute/kernels/matmul_blocked.h"

#ifndef PREFETCH_BYTES
#define PREFETCH_BYTES 2048
#endif
#define SUMS_MAX (VECTORS_OF_16 * (PAIR_ROWS ? 4 : 2)) /* vectors of a row of a tile */

static void decode_fp8(float *out, const char *w, uint32_t count);
static void run_fp8_tile(const struct matmul_tile *t);

/* part[r][0..16 sixteens) += channel k, from output `out` of the first panel on. */
ALWAYS_INLINE void multiply_channel(enum tile_source source, int rows, int sixteens, size_t out,
                                    const struct matmul_tile *t, size_t k,
                                    lanes part[ROWS][SUMS_MAX]) {
    const float *x = t->x;
    lanes weights[SUMS_MAX];
#pragma GCC unroll 4
    for (int i = 0; i < sixteens; i++) {
        load_16(source, (const char *)t->w + (size_t)(i / 2) * t->panel_bytes, k,
                out + (size_t)(i % 2) * 16, weights + i * VECTORS_OF_16);
        if (i % 2 || sixteens == 1) look_ahead(source, t, (size_t)(i / 2), k);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        lanes factor = lanes_all(x[(size_t)r * QUANT_GROUP + k]);
#pragma GCC unroll 8
        for (int v = 0; v < sixteens * VECTORS_OF_16; v++)
            part[r][v] = lanes_fma(factor, weights[v], part[r][v]);
    }
}

/* Vector v of a tile lies in this panel of the tile's, and there at this output. */
ALWAYS_INLINE size_t panel_of(int v) {
    return (size_t)v * LANES / MATMUL_PANEL;
}

ALWAYS_INLINE size_t output_of(int v, size_t out) {
    return out + (size_t)v * LANES % MATMUL_PANEL;
}

/* The same with eight channels' codes. */
ALWAYS_INLINE void multiply_codes(int rows, int sixteens, size_t out, const struct matmul_tile *t,
                                  size_t k, lanes part[ROWS][SUMS_MAX]) {
    const float *x = (const float *)t->x + k;
#pragma GCC unroll 8
    for (int v = 0; v < sixteens * VECTORS_OF_16; v++) {
        lane_codes codes = load_codes(t->type, (const char *)t->w + panel_of(v) * t->panel_bytes +
                                                   k * packed_channel_bytes(WEIGHT_INT4_32) +
                                                   output_of(v, out) * sizeof(uint32_t));
#pragma GCC unroll 8
        for (int c = 0; c < 8; c++) {
            lanes weights = next_code(&codes, c);
#pragma GCC unroll 16
            for (int r = 0; r < rows; r++)
                part[r][v] = lanes_fma(lanes_all(x[(size_t)r * QUANT_GROUP + (size_t)c]), weights,
                                       part[r][v]);
        }
    }
}

/* Joins the sums from channel `first` on with y. */
ALWAYS_INLINE void end_sums(bool groups, int rows, int sixteens, size_t out,
                            const struct matmul_tile *t, size_t first, lanes part[ROWS][SUMS_MAX]) {
#pragma GCC unroll 8
    for (int v = 0; v < sixteens * VECTORS_OF_16; v++) {
        lanes scale = lanes_all(1);
        if (groups)
            scale = load_bf16(t->group_scales + panel_of(v) * t->group_scale_stride +
                                  first / t->group * MATMUL_PANEL + output_of(v, out),
                              LANES);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            float *y = t->y + (size_t)r * t->y_stride + out + (size_t)v * LANES;
            lanes sum = t->first && !first ? lanes_all(0) : lanes_load(y);
            lanes s = lanes_all(t->s[panel_of(v)][r]);
            if (groups) s *= scale;
            lanes_store(y, lanes_fma(part[r][v], s, sum));
        }
    }
}

/* Outputs [out, out + 16 sixteens) of a panel, or of two. */
ALWAYS_INLINE void tile(enum tile_source source, int rows, int sixteens, size_t out,
                        const struct matmul_tile *t) {
    const bool groups = source == TILE_CODES || source == TILE_GROUPS;
    size_t first = 0, end;
    do {
        lanes part[ROWS][SUMS_MAX];
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int v = 0; v < sixteens * VECTORS_OF_16; v++)
                part[r][v] = lanes_all(0);
        end = groups ? first + t->group : t->count;
        for (size_t k = first; source == TILE_CODES && k < end; k += 8)
            multiply_codes(rows, sixteens, out, t, k, part);
#pragma GCC unroll 2
        for (size_t k = first; source != TILE_CODES && k < end; k++)
            multiply_channel(source, rows, sixteens, out, t, k, part);
        end_sums(groups, rows, sixteens, out, t, first, part);
        first = end;
    } while (groups && end < t->count);
}

/* Calls tile with its shape as constants: only then its arrays are registers. */
ALWAYS_INLINE void tile_of_rows(enum tile_source source, int rows, const struct matmul_tile *t) {
    if (rows > ROWS) __builtin_unreachable();
    if (rows <= PAIR_ROWS && t->panels == 2)
        tile(source, rows, 4, 0, t);
    else if (rows <= WHOLE_ROWS)
        tile(source, rows, 2, 0, t);
    else
        for (size_t out = 0; out < MATMUL_PANEL; out += 16)
            tile(source, rows, 1, out, t);
}

ALWAYS_INLINE void tile_of_source(enum tile_source source, const struct matmul_tile *t) {
    /* clang-format off */
    switch (t->rows) {
    case 1: tile_of_rows(source, 1, t); break;
    case 2: tile_of_rows(source, 2, t); break;
    case 3: tile_of_rows(source, 3, t); break;
    case 4: tile_of_rows(source, 4, t); break;
    case 5: tile_of_rows(source, 5, t); break;
    case 6: tile_of_rows(source, 6, t); break;
    case 7: tile_of_rows(source, 7, t); break;
    case 8: tile_of_rows(source, 8, t); break;
    case 9: tile_of_rows(source, 9, t); break;
    case 10: tile_of_rows(source, 10, t); break;
    case 11: tile_of_rows(source, 11, t); break;
    case 12: tile_of_rows(source, 12, t); break;
    default: __builtin_unreachable();
    }
    /* clang-format on */
}

/* The scale and minimum of a group of a super-block, for the outputs from `out` of the panel on. */
struct lane_scales {
    lanes scale, minimum;
};

ALWAYS_INLINE struct lane_scales load_scales(const struct weight_blocks *blocks,
                                             const struct packed_super *super, size_t group,
                                             size_t out) {
    struct lane_scales loaded = {lanes_load_f16(super->d + out), lanes_all(0)};
    const size_t at = group * MATMUL_PANEL + out;
    if (blocks->scaled) loaded.scale *= lanes_load_i8(super->scales + at);
    if (blocks->has_mins)
        loaded.minimum = lanes_load_f16(super->d_min + out) * lanes_load_i8(super->mins + at);
    return loaded;
}

ALWAYS_INLINE lanes scale_code(const struct weight_blocks *blocks, const struct lane_scales *of,
                               lanes code) {
    lanes weights = of->scale * code;
    if (blocks->has_mins) weights -= of->minimum;
    return weights;
}

/* part[r][v] += eight channels of `width` vectors of a type of blocks, from output `out` of the
 * panel and vector `from` of the sums on. Sums of several vectors do not wait for each other. */
ALWAYS_INLINE void multiply_scaled(enum weight_type type, int rows, int width,
                                   const struct lane_scales *scales, const char *codes, size_t out,
                                   const float *x, lanes part[ROWS][SUMS_MAX], int from) {
    const struct weight_blocks *blocks = weight_type_blocks(type);
    const bool nibbles = blocks->code_bits == 4;
    lane_codes eight[2 * VECTORS_OF_16] = {0};
    if (nibbles) {
#pragma GCC unroll 8
        for (int v = 0; v < width; v++)
            eight[v] = load_codes(type, codes + (out + (size_t)v * LANES) * sizeof(uint32_t));
    }
#pragma GCC unroll 8
    for (int c = 0; c < 8; c++) {
        const char *of_channel = codes + (size_t)c * MATMUL_PANEL;
        if (!nibbles && c % 2 == 0) __builtin_prefetch(of_channel + PREFETCH_BYTES);
#pragma GCC unroll 8
        for (int v = 0; v < width; v++) {
            const size_t at = out + (size_t)v * LANES;
            lanes code =
                nibbles ? next_code(&eight[v], c) : lanes_load_i8((const int8_t *)of_channel + at);
            lanes weights = scale_code(blocks, &scales[v], code);
#pragma GCC unroll 2
            for (int r = 0; r < rows; r++)
                part[r][from + v] = lanes_fma(lanes_all(x[(size_t)r * QUANT_GROUP + (size_t)c]),
                                              weights, part[r][from + v]);
        }
    }
}

/* part[r][v] += a group's channels, from channel k of the tile on, of a type of blocks. */
ALWAYS_INLINE void multiply_group(enum weight_type type, int rows, const struct matmul_tile *t,
                                  size_t k, lanes part[ROWS][SUMS_MAX]) {
    const struct weight_blocks *blocks = weight_type_blocks(type);
    const size_t channel = t->super_channel + k;
    const struct packed_super super = packed_super_at(
        blocks, t->supers + channel / blocks->channels * packed_super_bytes(blocks));
    const char *codes = (const char *)t->w + k * packed_channel_bytes(type);
    const float *x = (const float *)t->x + k;
    __builtin_prefetch((const char *)super.d + PREFETCH_BYTES / 8); /* scales are that much fewer */
    struct lane_scales scales[2 * VECTORS_OF_16];
#pragma GCC unroll 8
    for (size_t v = 0; v < 2 * VECTORS_OF_16; v++)
        scales[v] =
            load_scales(blocks, &super, channel % blocks->channels / blocks->group, v * LANES);
    /* a row's codes of four bits fill registers: two vectors at a time */
    const size_t width = blocks->code_bits == 4 && rows == 1 ? 2 : 2 * VECTORS_OF_16;
    for (size_t first = 0; first < blocks->group; first += 8)
#pragma GCC unroll 4
        for (size_t from = 0; from < 2 * VECTORS_OF_16; from += width)
            multiply_scaled(type, rows, (int)width, scales + from,
                            codes + first * packed_channel_bytes(type), from * LANES, x + first,
                            part, (int)from);
}

/* A whole panel and a row or two: a type of blocks is multiplied as it is read. */
ALWAYS_INLINE void tile_of_blocks(enum weight_type type, int rows, const struct matmul_tile *t) {
    lanes part[ROWS][SUMS_MAX];
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < 2 * VECTORS_OF_16; v++)
            part[r][v] = lanes_all(0);
    for (size_t k = 0; k < t->count; k += weight_type_blocks(type)->group)
        multiply_group(type, rows, t, k, part);
    end_sums(false, rows, 2, 0, t, 0, part);
}

#define BLOCK_ROWS 2 /* most rows of such a tile */

ALWAYS_INLINE void tile_of_block_type(enum weight_type type, const struct matmul_tile *t) {
    if (t->rows == 1)
        tile_of_blocks(type, 1, t);
    else
        tile_of_blocks(type, BLOCK_ROWS, t);
}

static void run_block_tile(const struct matmul_tile *t) {
    /* clang-format off */
    switch (t->type) {
    case WEIGHT_Q8_0: tile_of_block_type(WEIGHT_Q8_0, t); break;
    case WEIGHT_Q4_0: tile_of_block_type(WEIGHT_Q4_0, t); break;
    case WEIGHT_Q4_K: tile_of_block_type(WEIGHT_Q4_K, t); break;
    case WEIGHT_Q5_K: tile_of_block_type(WEIGHT_Q5_K, t); break;
    case WEIGHT_Q6_K: tile_of_block_type(WEIGHT_Q6_K, t); break;
    default: __builtin_unreachable();
    }
    /* clang-format on */
}

static void run_tile(const struct matmul_tile *t) {
    if (weight_type_blocks(t->type) && !t->decoded)
        run_block_tile(t);
    else if (t->group)
        tile_of_source(t->decoded ? TILE_GROUPS : TILE_CODES, t);
    else if (t->decoded || !t->prefetch) /* without prefetch: F32, which needs no decoding */
        tile_of_source(TILE_FLOATS, t);
    else if (t->type == WEIGHT_F32)
        tile_of_source(TILE_F32, t);
    else if (t->type == WEIGHT_FP8)
        run_fp8_tile(t);
    else
        tile_of_source(TILE_BF16, t);
}

/* x as floats; `lift` cancels the 2^-8 of FP8's half-floats. */
static void pack_x(void *out, const float *x, uint32_t n, bool lift) {
    lanes factor = lanes_all(lift ? 0x1p8f : 1.0f);
    EACH(LANES, n, store((float *)out + i, load(x + i, count, 0) * factor, count));
}

static void pack_bf16(void *out, const uint16_t *x, uint32_t n, bool lift) {
    lanes factor = lanes_all(lift ? 0x1p8f : 1.0f);
    for (uint32_t i = 0; i < n; i += LANES) /* x is filled up with zeros, and out has room */
        lanes_store((float *)out + i, load_bf16(x + i, LANES) * factor);
}

/* Packed w[count][32] to floats out[count][32]; they may lie where one channel's w does. */
ALWAYS_INLINE void decode_source(enum tile_source source, float *out, const char *w,
                                 uint32_t count) {
    for (size_t k = 0; k < count; k++, out += MATMUL_PANEL) {
        lanes weights[2 * VECTORS_OF_16];
        load_16(source, w, k, 0, weights);
        load_16(source, w, k, 16, weights + VECTORS_OF_16);
        for (size_t v = 0; v < 2 * VECTORS_OF_16; v++)
            lanes_store(out + v * LANES, weights[v]);
    }
}

static void decode_codes(float *out, enum weight_type type, const char *w, uint32_t count) {
    for (size_t k = 0; k < count; k += 8)
        for (size_t i = 0; i < MATMUL_PANEL; i += LANES) {
            lane_codes codes =
                load_codes(type, w + k * packed_channel_bytes(type) + i * sizeof(uint32_t));
#pragma GCC unroll 8
            for (int c = 0; c < 8; c++)
                lanes_store(out + (k + (size_t)c) * MATMUL_PANEL + i, next_code(&codes, c));
        }
}

static void decode(void *out, enum weight_type type, const void *w, uint32_t count) {
    if (type == WEIGHT_FP8)
        decode_fp8(out, w, count);
    else if (weight_type_group(type))
        decode_codes(out, type, w, count);
    else
        decode_source(TILE_BF16, out, w, count);
}

/* One group of a super-block of a type of blocks, from output `out` of the panel on: its `codes`
 * are those of the panel's outputs. */
ALWAYS_INLINE void decode_group(enum weight_type type, const struct weight_blocks *blocks,
                                const struct packed_super *super, size_t group, const char *codes,
                                size_t out, float *to) {
    const struct lane_scales scales = load_scales(blocks, super, group, out);
    for (size_t k = 0; k < blocks->group && blocks->code_bits == 8; k++) {
        lanes code = lanes_load_i8((const int8_t *)codes + k * MATMUL_PANEL + out);
        lanes_store(to + k * MATMUL_PANEL + out, scale_code(blocks, &scales, code));
    }
    for (size_t k = 0; k < blocks->group && blocks->code_bits == 4; k += 8) {
        lane_codes eight = load_codes(type, codes + k * MATMUL_PANEL / 2 + out * sizeof(uint32_t));
#pragma GCC unroll 8
        for (int c = 0; c < 8; c++) {
            lanes weights = scale_code(blocks, &scales, next_code(&eight, c));
            lanes_store(to + (k + (size_t)c) * MATMUL_PANEL + out, weights);
        }
    }
}

/* Inlined with a constant type, so that the numbers in `blocks` are constants, too. */
ALWAYS_INLINE void decode_blocks_of(enum weight_type type, float *out,
                                    const struct packed_matrix *weights, uint32_t panel,
                                    uint32_t first, uint32_t count) {
    const struct weight_blocks *blocks = weight_type_blocks(type);
    const char *codes = (const char *)weights->data +
                        ((size_t)panel * weights->cols + first) * packed_channel_bytes(type);
    const size_t supers = weights->cols / blocks->channels;
    for (size_t k = 0; k < count; k += blocks->group) {
        const size_t channel = first + k;
        const struct packed_super super = packed_super_at(
            blocks, (const char *)weights->group_scales +
                        (panel * supers + channel / blocks->channels) * packed_super_bytes(blocks));
        for (size_t v = 0; v < MATMUL_PANEL; v += LANES)
            decode_group(type, blocks, &super, channel % blocks->channels / blocks->group,
                         codes + k * packed_channel_bytes(type), v, out + k * MATMUL_PANEL);
    }
}

static void decode_blocks(float *out, const struct packed_matrix *weights, uint32_t panel,
                          uint32_t first, uint32_t count) {
    switch (weights->type) {
    case WEIGHT_Q8_0:
        decode_blocks_of(WEIGHT_Q8_0, out, weights, panel, first, count);
        break;
    case WEIGHT_Q4_0:
        decode_blocks_of(WEIGHT_Q4_0, out, weights, panel, first, count);
        break;
    case WEIGHT_Q4_K:
        decode_blocks_of(WEIGHT_Q4_K, out, weights, panel, first, count);
        break;
    case WEIGHT_Q5_K:
        decode_blocks_of(WEIGHT_Q5_K, out, weights, panel, first, count);
        break;
    default:
        decode_blocks_of(WEIGHT_Q6_K, out, weights, panel, first, count);
        break;
    }
}

static void multiply(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    static const struct matmul_leaf leaf = {
        .tile_rows = ROWS,
        .pair_rows = PAIR_ROWS,
        .direct_rows = DIRECT_ROWS,
        .block_rows = BLOCK_ROWS,
        .x_bytes = sizeof(float),
        .pack_x = pack_x,
        .pack_bf16 = pack_bf16,
        .decode = decode,
        .decode_blocks = decode_blocks,
        .tile = run_tile,
    };
    matmul_blocked_run(&leaf, job, panel_first, panel_count);
}

#endif /* LANES */
