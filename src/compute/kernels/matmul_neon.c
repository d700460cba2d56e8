/* SPDX-License-Identifier: Apache-2.0
 * Matrix products with NEON: up to 6 rows by 16 outputs stay in registers over a block of 128
 * channels, so a panel is two halves; one or two rows take the panel whole. FP8 becomes float
 * through half-floats, as in matmul_avx512.c, and codes of four bits through integers of eight bits
 * and a table of 16 (TBL). Nothing is fetched ahead by hand: panels are read from their first byte
 * to their last, which processors see by themselves, and no arm64 machine was there to measure
 * more.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/code_values.h"
#include "compute/kernels/matmul_blocked.h"
#include "compute/kernels/neon.h"

#define ROWS 6
#define DIRECT_ROWS 2

/* The source of a tile: packed weights, or floats in a near cache (F32, GROUPS: those of codes). */
enum neon_source { SOURCE_FP8, SOURCE_BF16, SOURCE_F32, SOURCE_CODES, SOURCE_GROUPS };

/* 16 weights of one channel, from output `first` of the panel on. */
ALWAYS_INLINE void load_half(enum neon_source source, const char *w, size_t k, size_t first,
                             float32x4_t out[4]) {
    size_t at = k * MATMUL_PANEL + first;
    if (source == SOURCE_FP8) {
        neon_load_codes(w + at, out);
    } else if (source == SOURCE_BF16) {
        for (size_t v = 0; v < 4; v += 2) {
            uint16x8_t bits = vld1q_u16((const uint16_t *)(const void *)w + at + 4 * v);
            out[v] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(bits), 16));
            out[v + 1] = vreinterpretq_f32_u32(vshll_high_n_u16(bits, 16));
        }
    } else {
        for (size_t v = 0; v < 4; v++)
            out[v] = vld1q_f32((const float *)(const void *)w + at + 4 * v);
    }
}

/* Outputs [first, first + 16 * halves) of the panel. */
ALWAYS_INLINE void tile(enum neon_source source, int rows, int halves, size_t first,
                        const struct matmul_tile *t) {
    float32x4_t part[ROWS][8];
    const float *x = t->x;
    const char *w = t->w;
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < 4 * halves; v++)
            part[r][v] = vdupq_n_f32(0);
    for (size_t k = 0; k < t->count; k++) {
        float32x4_t weights[8];
#pragma GCC unroll 2
        for (int h = 0; h < halves; h++)
            load_half(source, w, k, first + 16 * (size_t)h, weights + 4 * h);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            float32x4_t factor = vld1q_dup_f32(x + (size_t)r * QUANT_GROUP + k);
#pragma GCC unroll 8
            for (int v = 0; v < 4 * halves; v++)
                part[r][v] = vfmaq_f32(part[r][v], factor, weights[v]);
        }
    }
    neon_end_tile(t, rows, 4 * halves, first, part);
}

/* The codes of 4 outputs and eight channels as integers: in each word those of channels 0, 4, 1 and
 * 5, and those of 2, 6, 3 and 7. */
struct neon_codes {
    int32x4_t of[2];
};

ALWAYS_INLINE struct neon_codes load_codes(enum weight_type type, const char *w) {
    const int8x16_t values = vld1q_s8(code_values_of(type));
    const uint8x16_t bytes = vld1q_u8((const uint8_t *)w);
    return (struct neon_codes){
        {vreinterpretq_s32_s8(vqtbl1q_s8(values, vandq_u8(bytes, vdupq_n_u8(15)))),
         vreinterpretq_s32_s8(vqtbl1q_s8(values, vshrq_n_u8(bytes, 4)))}};
}

/* Channel `c` of the eight. */
ALWAYS_INLINE float32x4_t code_floats(const struct neon_codes *codes, int c) {
    const int byte = c % 2 * 2 + c / 4;
    int32x4_t top = vshlq_s32(codes->of[c / 2 % 2], vdupq_n_s32(24 - 8 * byte));
    return vcvtq_f32_s32(vshrq_n_s32(top, 24));
}

/* Joins a group's sums with y. */
ALWAYS_INLINE void end_group(int rows, int halves, size_t out, const struct matmul_tile *t,
                             size_t first, float32x4_t part[ROWS][8]) {
#pragma GCC unroll 8
    for (int v = 0; v < 4 * halves; v++) {
        const size_t at = out + 4 * (size_t)v;
        uint16x4_t bits = vld1_u16(t->group_scales + first / t->group * MATMUL_PANEL + at);
        float32x4_t scale = vreinterpretq_f32_u32(vshll_n_u16(bits, 16));
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            float *y = t->y + (size_t)r * t->y_stride + at;
            float32x4_t sum = t->first && !first ? vdupq_n_f32(0) : vld1q_f32(y);
            float32x4_t s = vmulq_f32(vdupq_n_f32(t->s[0][r]), scale);
            vst1q_f32(y, vfmaq_f32(sum, part[r][v], s));
        }
    }
}

/* Outputs [out, out + 16 * halves) of the panel. `decoded`: w is what decode wrote. */
ALWAYS_INLINE void group_tile(bool decoded, int rows, int halves, size_t out,
                              const struct matmul_tile *t) {
    const float *x = t->x;
    const size_t step = decoded ? 1 : 8;
    for (size_t first = 0; first < t->count; first += t->group) {
        float32x4_t part[ROWS][8];
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int v = 0; v < 4 * halves; v++)
                part[r][v] = vdupq_n_f32(0);
        for (size_t k = first; k < first + t->group; k += step)
#pragma GCC unroll 8
            for (int v = 0; v < 4 * halves; v++) {
                const size_t at = out + 4 * (size_t)v;
                struct neon_codes codes;
                if (!decoded) codes = load_codes(t->type, (const char *)t->w + k * 16 + at * 4);
#pragma GCC unroll 8
                for (int c = 0; c < (int)step; c++) {
                    float32x4_t weights =
                        decoded ? vld1q_f32((const float *)t->w + k * MATMUL_PANEL + at)
                                : code_floats(&codes, c);
#pragma GCC unroll 6
                    for (int r = 0; r < rows; r++) {
                        float32x4_t factor =
                            vld1q_dup_f32(x + (size_t)r * QUANT_GROUP + k + (size_t)c);
                        part[r][v] = vfmaq_f32(part[r][v], factor, weights);
                    }
                }
            }
        end_group(rows, halves, out, t, first, part);
    }
}

ALWAYS_INLINE void any_tile(enum neon_source source, int rows, int halves, size_t first,
                            const struct matmul_tile *t) {
    if (source == SOURCE_CODES || source == SOURCE_GROUPS)
        group_tile(source == SOURCE_GROUPS, rows, halves, first, t);
    else
        tile(source, rows, halves, first, t);
}

ALWAYS_INLINE void tile_of_source(enum neon_source source, const struct matmul_tile *t) {
    if (t->rows == 1) {
        any_tile(source, 1, 2, 0, t);
        return;
    }
    if (t->rows == 2) {
        any_tile(source, 2, 2, 0, t);
        return;
    }
    for (size_t first = 0; first < MATMUL_PANEL; first += 16) {
        /* clang-format off */
        switch (t->rows) {
        case 3: any_tile(source, 3, 1, first, t); break;
        case 4: any_tile(source, 4, 1, first, t); break;
        case 5: any_tile(source, 5, 1, first, t); break;
        case 6: any_tile(source, 6, 1, first, t); break;
        default: __builtin_unreachable();
        }
        /* clang-format on */
    }
}

static void run_tile(const struct matmul_tile *t) {
    if (t->group)
        tile_of_source(t->decoded ? SOURCE_GROUPS : SOURCE_CODES, t);
    else if (t->decoded || t->type == WEIGHT_F32)
        tile_of_source(SOURCE_F32, t);
    else if (t->type == WEIGHT_FP8)
        tile_of_source(SOURCE_FP8, t);
    else
        tile_of_source(SOURCE_BF16, t);
}

static void pack_x(void *out, const float *x, uint32_t count, bool lift) {
    float32x4_t factor = vdupq_n_f32(lift ? 0x1p8f : 1.0f);
    for (uint32_t i = 0; i < count; i += 4)
        neon_store(out, i, count, vmulq_f32(neon_load(x, i, count, 0), factor));
}

static void pack_bf16(void *out, const uint16_t *x, uint32_t count, bool lift) {
    float32x4_t factor = vdupq_n_f32(lift ? 0x1p8f : 1.0f);
    for (uint32_t i = 0; i < count; i += 4) { /* x is filled up with zeros */
        float32x4_t values = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(x + i), 16));
        vst1q_f32((float *)out + i, vmulq_f32(values, factor));
    }
}

ALWAYS_INLINE void decode_source(enum neon_source source, float *out, const char *w,
                                 uint32_t count) {
    for (size_t k = 0; k < count; k++)
        for (size_t first = 0; first < MATMUL_PANEL; first += 16) {
            float32x4_t weights[4];
            load_half(source, w, k, first, weights);
            for (size_t v = 0; v < 4; v++)
                vst1q_f32(out + k * MATMUL_PANEL + first + 4 * v, weights[v]);
        }
}

static void decode_codes(enum weight_type type, float *out, const char *w, uint32_t count) {
    for (size_t k = 0; k < count; k += 8)
        for (size_t first = 0; first < MATMUL_PANEL; first += 4) {
            struct neon_codes codes = load_codes(type, w + k * 16 + first * 4);
            for (int c = 0; c < 8; c++)
                vst1q_f32(out + (k + (size_t)c) * MATMUL_PANEL + first, code_floats(&codes, c));
        }
}

static void decode(void *out, enum weight_type type, const void *w, uint32_t count) {
    if (type == WEIGHT_FP8)
        decode_source(SOURCE_FP8, out, w, count);
    else if (weight_type_group(type))
        decode_codes(type, out, w, count);
    else
        decode_source(SOURCE_BF16, out, w, count);
}

void matmul_neon_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    static const struct matmul_leaf leaf = {
        .tile_rows = ROWS,
        .direct_rows = DIRECT_ROWS,
        .x_bytes = sizeof(float),
        .pack_x = pack_x,
        .pack_bf16 = pack_bf16,
        .decode = decode,
        .tile = run_tile,
    };
    matmul_blocked_run(&leaf, job, panel_first, panel_count);
}
