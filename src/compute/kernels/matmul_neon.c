/* SPDX-License-Identifier: Apache-2.0
 * Matrix products with NEON: up to 6 rows by 16 outputs stay in registers over a block of 128
 * channels, so a panel is two halves; one or two rows take the panel whole. FP8 becomes float
 * through half-floats, as in matmul_avx512.c. Nothing is fetched ahead by hand: panels are read
 * from their first byte to their last, which processors see by themselves, and no arm64 machine was
 * there to measure more.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/matmul_blocked.h"
#include "compute/kernels/neon.h"

#define ROWS 6
#define DIRECT_ROWS 2

/* 16 weights of one channel, from output `first` of the panel on. */
ALWAYS_INLINE void load_half(enum weight_type type, const char *w, size_t k, size_t first,
                             float32x4_t out[4]) {
    size_t at = k * MATMUL_PANEL + first;
    if (type == WEIGHT_FP8) {
        neon_load_codes(w + at, out);
    } else if (type == WEIGHT_BF16) {
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
ALWAYS_INLINE void tile(enum weight_type type, int rows, int halves, size_t first,
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
            load_half(type, w, k, first + 16 * (size_t)h, weights + 4 * h);
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

ALWAYS_INLINE void tile_of_type(enum weight_type type, const struct matmul_tile *t) {
    if (t->rows == 1) {
        tile(type, 1, 2, 0, t);
        return;
    }
    if (t->rows == 2) {
        tile(type, 2, 2, 0, t);
        return;
    }
    for (size_t first = 0; first < MATMUL_PANEL; first += 16) {
        /* clang-format off */
        switch (t->rows) {
        case 3: tile(type, 3, 1, first, t); break;
        case 4: tile(type, 4, 1, first, t); break;
        case 5: tile(type, 5, 1, first, t); break;
        case 6: tile(type, 6, 1, first, t); break;
        default: __builtin_unreachable();
        }
        /* clang-format on */
    }
}

static void run_tile(const struct matmul_tile *t) {
    if (t->decoded || t->type == WEIGHT_F32)
        tile_of_type(WEIGHT_F32, t);
    else if (t->type == WEIGHT_FP8)
        tile_of_type(WEIGHT_FP8, t);
    else
        tile_of_type(WEIGHT_BF16, t);
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

ALWAYS_INLINE void decode_type(enum weight_type type, float *out, const char *w, uint32_t count) {
    for (size_t k = 0; k < count; k++)
        for (size_t first = 0; first < MATMUL_PANEL; first += 16) {
            float32x4_t weights[4];
            load_half(type, w, k, first, weights);
            for (size_t v = 0; v < 4; v++)
                vst1q_f32(out + k * MATMUL_PANEL + first + 4 * v, weights[v]);
        }
}

static void decode(void *out, enum weight_type type, const void *w, uint32_t count) {
    if (type == WEIGHT_FP8)
        decode_type(WEIGHT_FP8, out, w, count);
    else
        decode_type(WEIGHT_BF16, out, w, count);
}

void matmul_neon_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    static const struct matmul_leaf leaf = {
        .tile_rows = ROWS,
        .few_rows = DIRECT_ROWS,
        .direct_rows = DIRECT_ROWS,
        .x_bytes = sizeof(float),
        .pack_x = pack_x,
        .pack_bf16 = pack_bf16,
        .decode = decode,
        .tile = run_tile,
    };
    if (weight_type_group(job->weights->type)) {
        matmul_c_run(job, panel_first, panel_count);
        return;
    }
    matmul_blocked_run(&leaf, job, panel_first, panel_count);
}
