/* SPDX-License-Identifier: Apache-2.0
 * Matrix products with AVX2, FMA and F16C: up to 6 rows by 16 outputs stay in registers over a
 * block of 128 channels, so a panel is two halves; one or two rows take the panel whole. FP8
 * becomes float through half-floats, as in matmul_avx512.c.
 */
#include "compute/kernels/tables.h"

#include <immintrin.h>

#include "compute/kernels/matmul_blocked.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define ROWS 6
#define DIRECT_ROWS 2
#define PREFETCH_BYTES 1536

/* The source of a tile: packed weights, which it prefetches, or floats in a near cache. */
enum avx2_source { SOURCE_FP8, SOURCE_BF16, SOURCE_F32, SOURCE_DECODED };

/* 16 weights of one channel, from output `first` of the panel on. */
ALWAYS_INLINE void load_half(enum avx2_source source, const char *w, size_t k, int first,
                             __m256 *out) {
    size_t at = k * MATMUL_PANEL + (size_t)first;
    if (source == SOURCE_FP8) {
        __m128i codes = _mm_loadu_si128((const __m128i *)(const void *)(w + at));
        __m256i half = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
        half = _mm256_and_si256(half, _mm256_set1_epi16((short)0xBF80));
        out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(half));
        out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1));
    } else if (source == SOURCE_BF16) {
        for (size_t v = 0; v < 2; v++) {
            __m128i bits = _mm_loadu_si128((const __m128i *)(const void *)(w + 2 * at + 16 * v));
            out[v] = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
        }
    } else {
        out[0] = _mm256_loadu_ps((const float *)(const void *)w + at);
        out[1] = _mm256_loadu_ps((const float *)(const void *)w + at + 8);
    }
}

ALWAYS_INLINE size_t channel_bytes(enum avx2_source source) {
    return source == SOURCE_FP8 ? 32 : source == SOURCE_BF16 ? 64 : 128;
}

/* Outputs [first, first + 16 * halves) of the panel. */
ALWAYS_INLINE void tile(enum avx2_source source, int rows, int halves, int first,
                        const struct matmul_tile *t) {
    __m256 part[ROWS][4];
    const float *x = t->x;
    const char *w = t->w;
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < 2 * halves; v++)
            part[r][v] = _mm256_setzero_ps();
#pragma GCC unroll 2
    for (size_t k = 0; k < t->count; k++) {
        __m256 weights[4];
#pragma GCC unroll 2
        for (int h = 0; h < halves; h++)
            load_half(source, w, k, first + 16 * h, weights + 2 * h);
        if (source != SOURCE_DECODED)
            _mm_prefetch(w + k * channel_bytes(source) + PREFETCH_BYTES, _MM_HINT_T0);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m256 factor = _mm256_broadcast_ss(x + r * QUANT_GROUP + k);
#pragma GCC unroll 4
            for (int v = 0; v < 2 * halves; v++)
                part[r][v] = _mm256_fmadd_ps(factor, weights[v], part[r][v]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < 2 * halves; v++) {
            float *y = t->y + r * t->y_stride + first + v * 8;
            __m256 sum = t->first ? _mm256_setzero_ps() : _mm256_loadu_ps(y);
            _mm256_storeu_ps(y, _mm256_fmadd_ps(part[r][v], _mm256_set1_ps(t->s[0][r]), sum));
        }
}

ALWAYS_INLINE void tile_of_source(enum avx2_source source, const struct matmul_tile *t) {
    if (t->rows == 1) {
        tile(source, 1, 2, 0, t);
        return;
    }
    if (t->rows == 2) {
        tile(source, 2, 2, 0, t);
        return;
    }
    for (int first = 0; first < MATMUL_PANEL; first += 16) {
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
    if (t->decoded || !t->prefetch)
        tile_of_source(SOURCE_DECODED, t);
    else if (t->type == WEIGHT_F32)
        tile_of_source(SOURCE_F32, t);
    else if (t->type == WEIGHT_FP8)
        tile_of_source(SOURCE_FP8, t);
    else
        tile_of_source(SOURCE_BF16, t);
}

static void pack_x(void *out, const float *x, uint32_t count, bool lift) {
    float factor = lift ? 0x1p8f : 1.0f;
    float *to = out;
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(factor)));
    for (; i < count; i++)
        to[i] = x[i] * factor;
}

static void pack_bf16(void *out, const uint16_t *x, uint32_t count, bool lift) {
    float factor = lift ? 0x1p8f : 1.0f;
    for (uint32_t i = 0; i < count; i += 8) { /* x is filled up with zeros, out has room */
        __m256i bits =
            _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(x + i)));
        __m256 values = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
        _mm256_storeu_ps((float *)out + i, _mm256_mul_ps(values, _mm256_set1_ps(factor)));
    }
}

ALWAYS_INLINE void decode_source(enum avx2_source source, float *out, const char *w,
                                 uint32_t count) {
    for (size_t k = 0; k < count; k++)
        for (int first = 0; first < MATMUL_PANEL; first += 16) {
            __m256 weights[2];
            load_half(source, w, k, first, weights);
            _mm256_storeu_ps(out + k * MATMUL_PANEL + first, weights[0]);
            _mm256_storeu_ps(out + k * MATMUL_PANEL + first + 8, weights[1]);
        }
}

static void decode(void *out, enum weight_type type, const void *w, uint32_t count) {
    if (type == WEIGHT_FP8)
        decode_source(SOURCE_FP8, out, w, count);
    else
        decode_source(SOURCE_BF16, out, w, count);
}

void matmul_avx2_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
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
