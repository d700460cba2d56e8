/* SPDX-License-Identifier: Apache-2.0
 * Matrix products with AVX2, FMA and F16C: up to 6 rows by 16 outputs stay in registers over a
 * block of 128 channels, so a panel is two halves; one or two rows take the panel whole. FP8
 * becomes float through half-floats, as in matmul_avx512.c. Codes of four bits become integers of
 * eight bits by a table of 16 (VPSHUFB), and those become floats.
 */
#include "compute/kernels/tables.h"

#include <immintrin.h>

#include "compute/kernels/code_values.h"
#include "compute/kernels/matmul_blocked.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define ROWS 6
#define PREFETCH_BYTES 1536

/* The source of a tile: packed weights, which it prefetches, or floats in a near cache. */
enum avx2_source {
    SOURCE_FP8,
    SOURCE_BF16,
    SOURCE_F32,
    SOURCE_DECODED,
    SOURCE_CODES,
    SOURCE_GROUPS
};

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
        if (source == SOURCE_DECODED)
            _mm_prefetch(t->ahead + k * t->ahead_step, _MM_HINT_T0);
        else
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

/* The codes of 8 outputs and eight channels as integers: in each word those of channels 0, 4, 1 and
 * 5, and those of 2, 6, 3 and 7. */
struct code_bytes {
    __m256i of[2];
};

ALWAYS_INLINE struct code_bytes load_codes(enum weight_type type, const char *w) {
    const __m256i values = _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)(const void *)code_values_of(type)));
    const __m256i low = _mm256_set1_epi8(15);
    __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)w);
    return (struct code_bytes){
        {_mm256_shuffle_epi8(values, _mm256_and_si256(words, low)),
         _mm256_shuffle_epi8(values, _mm256_and_si256(_mm256_srli_epi32(words, 4), low))}};
}

/* Channel `c` of the eight. */
ALWAYS_INLINE __m256 code_floats(const struct code_bytes *codes, int c) {
    const int byte = c % 2 * 2 + c / 4;
    __m256i top = _mm256_slli_epi32(codes->of[c / 2 % 2], 24 - 8 * byte);
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(top, 24));
}

/* Joins a group's sums with y. */
ALWAYS_INLINE void end_group(int rows, int halves, size_t out, const struct matmul_tile *t,
                             size_t first, __m256 part[ROWS][4]) {
#pragma GCC unroll 4
    for (int v = 0; v < 2 * halves; v++) {
        const uint16_t *at = t->group_scales + first / t->group * MATMUL_PANEL + out + v * 8;
        __m128i bits = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m256 scale = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            float *y = t->y + r * t->y_stride + out + v * 8;
            __m256 sum = t->first && !first ? _mm256_setzero_ps() : _mm256_loadu_ps(y);
            __m256 s = _mm256_mul_ps(_mm256_set1_ps(t->s[0][r]), scale);
            _mm256_storeu_ps(y, _mm256_fmadd_ps(part[r][v], s, sum));
        }
    }
}

/* Outputs [out, out + 16 * halves) of the panel. */
ALWAYS_INLINE void group_tile(enum avx2_source source, int rows, int halves, size_t out,
                              const struct matmul_tile *t) {
    const float *x = t->x;
    const size_t step = source == SOURCE_CODES ? 8 : 1;
    for (size_t first = 0; first < t->count; first += t->group) {
        __m256 part[ROWS][4];
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < 2 * halves; v++)
                part[r][v] = _mm256_setzero_ps();
        for (size_t k = first; k < first + t->group; k += step)
#pragma GCC unroll 4
            for (int v = 0; v < 2 * halves; v++) {
                const char *words = (const char *)t->w + k * 16 + (out + v * 8) * 4;
                struct code_bytes codes;
                if (source == SOURCE_CODES) {
                    codes = load_codes(t->type, words);
                    _mm_prefetch(words + PREFETCH_BYTES, _MM_HINT_T0);
                }
#pragma GCC unroll 8
                for (int c = 0; c < (int)step; c++) {
                    __m256 weights =
                        source == SOURCE_CODES
                            ? code_floats(&codes, c)
                            : _mm256_loadu_ps((const float *)t->w + k * MATMUL_PANEL + out + v * 8);
#pragma GCC unroll 6
                    for (int r = 0; r < rows; r++)
                        part[r][v] = _mm256_fmadd_ps(
                            _mm256_broadcast_ss(x + r * QUANT_GROUP + k + c), weights, part[r][v]);
                }
            }
        end_group(rows, halves, out, t, first, part);
    }
}

ALWAYS_INLINE void any_tile(enum avx2_source source, int rows, int halves, int first,
                            const struct matmul_tile *t) {
    if (source == SOURCE_CODES || source == SOURCE_GROUPS)
        group_tile(source, rows, halves, (size_t)first, t);
    else
        tile(source, rows, halves, first, t);
}

ALWAYS_INLINE void tile_of_source(enum avx2_source source, const struct matmul_tile *t) {
    if (t->rows == 1) {
        any_tile(source, 1, 2, 0, t);
        return;
    }
    if (t->rows == 2) {
        any_tile(source, 2, 2, 0, t);
        return;
    }
    for (int first = 0; first < MATMUL_PANEL; first += 16) {
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
    else if (t->decoded || !t->prefetch)
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

static void decode_codes(enum weight_type type, float *out, const char *w, uint32_t count) {
    for (size_t k = 0; k < count; k += 8)
        for (size_t v = 0; v < 4; v++) {
            struct code_bytes codes = load_codes(type, w + k * 16 + v * 32);
#pragma GCC unroll 8
            for (int c = 0; c < 8; c++)
                _mm256_storeu_ps(out + (k + (size_t)c) * MATMUL_PANEL + v * 8,
                                 code_floats(&codes, c));
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

void matmul_avx2_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    static const struct matmul_leaf leaf = {
        .tile_rows = ROWS,
        .direct_rows = ROWS,
        .x_bytes = sizeof(float),
        .pack_x = pack_x,
        .pack_bf16 = pack_bf16,
        .decode = decode,
        .tile = run_tile,
    };
    matmul_blocked_run(&leaf, job, panel_first, panel_count);
}
