/* SPDX-License-Identifier: Apache-2.0
 * Matrix products with BFDOT, which multiplies two channels at a time: matmul_neon.c's tiles, where
 * a vector has four outputs' weights of channels k and k + 1 side by side. Codes become BF16 as
 * they become floats: the upper halves lose nothing. BFDOT has a rounding of its own (tables.h), so
 * this is a numerics class of its own. BFMMLA would give the same bits of two rows at once; it is
 * left out until it is measured.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/matmul_blocked.h"
#include "compute/kernels/neon.h"

#define ROWS 6
#define DIRECT_ROWS 2

enum bfdot_source { SOURCE_CODES, SOURCE_VALUES, SOURCE_PAIRS };

/* 16 outputs' pairs of channels k and k + 1, from output `first` of the panel on; `single`: k is
 * the last channel, and a zero stands for k + 1. */
ALWAYS_INLINE void load_pairs(enum bfdot_source source, const char *w, size_t k, bool single,
                              size_t first, bfloat16x8_t out[4]) {
    size_t at = k * MATMUL_PANEL + first;
    if (source == SOURCE_PAIRS) {
        for (size_t v = 0; v < 4; v++)
            out[v] = vreinterpretq_bf16_u16(vld1q_u16((const uint16_t *)(const void *)w +
                                                      k * MATMUL_PANEL + 2 * first + 8 * v));
    } else if (source == SOURCE_VALUES) {
        const uint16_t *values = (const uint16_t *)(const void *)w + at;
        for (size_t v = 0; v < 2; v++) {
            uint16x8_t even = vld1q_u16(values + 8 * v);
            uint16x8_t odd = single ? vdupq_n_u16(0) : vld1q_u16(values + MATMUL_PANEL + 8 * v);
            out[2 * v] = vreinterpretq_bf16_u16(vzip1q_u16(even, odd));
            out[2 * v + 1] = vreinterpretq_bf16_u16(vzip2q_u16(even, odd));
        }
    } else {
        float32x4_t even[4], odd[4];
        neon_load_codes(w + at, even);
        if (!single) neon_load_codes(w + at + MATMUL_PANEL, odd);
        for (size_t v = 0; v < 4; v++) {
            uint32x4_t high = single ? vdupq_n_u32(0) : vreinterpretq_u32_f32(odd[v]);
            out[v] = vreinterpretq_bf16_u32(vsriq_n_u32(high, vreinterpretq_u32_f32(even[v]), 16));
        }
    }
}

/* part[rows][16 halves] += channels k and k + 1. */
ALWAYS_INLINE void multiply_pair(enum bfdot_source source, int rows, int halves, size_t first,
                                 bool single, const struct matmul_tile *t, size_t k,
                                 float32x4_t part[ROWS][8]) {
    bfloat16x8_t weights[8];
#pragma GCC unroll 2
    for (int h = 0; h < halves; h++)
        load_pairs(source, t->w, k, single, first + 16 * (size_t)h, weights + 4 * h);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        uint32_t pair;
        memcpy(&pair, (const uint16_t *)t->x + (size_t)r * QUANT_GROUP + k, sizeof pair);
        bfloat16x8_t factor = vreinterpretq_bf16_u32(vdupq_n_u32(pair));
#pragma GCC unroll 8
        for (int v = 0; v < 4 * halves; v++)
            part[r][v] = vbfdotq_f32(part[r][v], weights[v], factor);
    }
}

/* Outputs [first, first + 16 * halves) of the panel. */
ALWAYS_INLINE void tile(enum bfdot_source source, int rows, int halves, size_t first,
                        const struct matmul_tile *t) {
    float32x4_t part[ROWS][8];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < 4 * halves; v++)
            part[r][v] = vdupq_n_f32(0);
    size_t k = 0;
    for (; k + 1 < t->count; k += 2)
        multiply_pair(source, rows, halves, first, false, t, k, part);
    if (k < t->count) multiply_pair(source, rows, halves, first, true, t, k, part);
    neon_end_tile(t, rows, 4 * halves, first, part);
}

ALWAYS_INLINE void tile_of_source(enum bfdot_source source, const struct matmul_tile *t) {
    if (t->rows == 1) {
        tile(source, 1, 2, 0, t);
        return;
    }
    if (t->rows == 2) {
        tile(source, 2, 2, 0, t);
        return;
    }
    for (size_t first = 0; first < MATMUL_PANEL; first += 16) {
        /* clang-format off */
        switch (t->rows) {
        case 3: tile(source, 3, 1, first, t); break;
        case 4: tile(source, 4, 1, first, t); break;
        case 5: tile(source, 5, 1, first, t); break;
        case 6: tile(source, 6, 1, first, t); break;
        default: __builtin_unreachable();
        }
        /* clang-format on */
    }
}

static void run_tile(const struct matmul_tile *t) {
    if (t->decoded)
        tile_of_source(SOURCE_PAIRS, t);
    else if (t->type == WEIGHT_FP8)
        tile_of_source(SOURCE_CODES, t);
    else
        tile_of_source(SOURCE_VALUES, t);
}

/* A row's `count` channels as BF16: the high halves of floats, which lose nothing. Writes whole
 * groups of 4, filled up with zeros, so an odd last channel is paired with a zero. */
static void pack_x(void *out, const float *x, uint32_t count, bool lift) {
    float32x4_t factor = vdupq_n_f32(lift ? 0x1p8f : 1.0f);
    for (uint32_t i = 0; i < count; i += 4) {
        float32x4_t some =
            count - i >= 4 ? lanes_load(x + i) : lanes_load_some(x + i, count - i, 0);
        uint32x4_t bits = vreinterpretq_u32_f32(vmulq_f32(some, factor));
        vst1_u16((uint16_t *)out + i, vshrn_n_u32(bits, 16));
    }
}

static void pack_bf16(void *out, const uint16_t *x, uint32_t count, bool lift) {
    float32x4_t factor = vdupq_n_f32(lift ? 0x1p8f : 1.0f);
    for (uint32_t i = 0; i < count; i += 4) { /* x is filled up with zeros */
        float32x4_t values = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(x + i), 16));
        uint32x4_t bits = vreinterpretq_u32_f32(vmulq_f32(values, factor));
        vst1_u16((uint16_t *)out + i, vshrn_n_u32(bits, 16));
    }
}

/* A panel's `count` channels as load_pairs makes them: 128 bytes for each pair. */
static void decode(void *out, enum weight_type type, const void *w, uint32_t count) {
    for (size_t k = 0; k < count; k += 2)
        for (size_t first = 0; first < MATMUL_PANEL; first += 16) {
            bfloat16x8_t pairs[4];
            if (type == WEIGHT_FP8)
                load_pairs(SOURCE_CODES, w, k, k + 1 == count, first, pairs);
            else
                load_pairs(SOURCE_VALUES, w, k, k + 1 == count, first, pairs);
            for (size_t v = 0; v < 4; v++)
                vst1q_u16((uint16_t *)out + k * MATMUL_PANEL + 2 * first + 8 * v,
                          vreinterpretq_u16_bf16(pairs[v]));
        }
}

void matmul_neonbf16_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    static const struct matmul_leaf leaf = {
        .tile_rows = ROWS,
        .direct_rows = DIRECT_ROWS,
        .x_bytes = sizeof(uint16_t),
        .pack_x = pack_x,
        .pack_bf16 = pack_bf16,
        .decode = decode,
        .tile = run_tile,
    };
    bool representable = job->x_is_bf16 || job->x_scales;
    if (representable && weight_type_pairs(job->weights->type))
        matmul_blocked_run(&leaf, job, panel_first, panel_count);
    else
        matmul_neon_run(job, panel_first, panel_count);
}
