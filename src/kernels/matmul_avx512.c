/* SPDX-License-Identifier: Apache-2.0
 * Matrix products with AVX-512: up to 12 rows by 32 outputs stay in registers over a block of 128
 * channels. FP8 becomes float through half-floats: sign-extended to 16 bits and moved left by 7, a
 * code is a half-float of its value times 2^-8, subnormal codes included, and VCVTPH2PS is exact.
 */
#include "kernels/tables.h"

#include <immintrin.h>

#include "kernels/matmul_blocked.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define ROWS 12
#define PAIR_ROWS 6
#define DIRECT_ROWS 6
#define PREFETCH_BYTES 1024

/* 32 weights of one channel. */
ALWAYS_INLINE void load_channel(enum weight_type type, const char *w, size_t k, __m512 *out) {
    if (type == WEIGHT_FP8) {
        __m256i codes = _mm256_loadu_si256((const __m256i *)(const void *)(w + k * 32));
        __m512i half = _mm512_slli_epi16(_mm512_cvtepi8_epi16(codes), 7);
        half = _mm512_and_si512(half, _mm512_set1_epi16((short)0xBF80));
        out[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(half));
        out[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1));
    } else if (type == WEIGHT_BF16) {
        const char *at = w + k * 64;
        for (int v = 0; v < 2; v++) {
            __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)(at + v * 32));
            out[v] = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
        }
    } else {
        out[0] = _mm512_loadu_ps(w + k * 128);
        out[1] = _mm512_loadu_ps(w + k * 128 + 64);
    }
}

ALWAYS_INLINE void tile(enum weight_type type, int rows, int panels, const struct matmul_tile *t) {
    __m512 part[ROWS][2 * TILE_PANELS_MAX];
    const float *x = t->x;
    const char *w = t->w;
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < 2 * panels; v++)
            part[r][v] = _mm512_setzero_ps();
#pragma GCC unroll 2
    for (size_t k = 0; k < t->count; k++) {
        __m512 weights[2 * TILE_PANELS_MAX];
#pragma GCC unroll 2
        for (int p = 0; p < panels; p++) {
            load_channel(type, w + p * t->panel_bytes, k, weights + 2 * p);
            if (t->prefetch)
                _mm_prefetch(w + p * t->panel_bytes + k * 32 * weight_type_bytes(type) +
                                 PREFETCH_BYTES,
                             _MM_HINT_T0);
        }
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            __m512 factor = _mm512_set1_ps(x[r * QUANT_GROUP + k]);
#pragma GCC unroll 4
            for (int v = 0; v < 2 * panels; v++)
                part[r][v] = _mm512_fmadd_ps(factor, weights[v], part[r][v]);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < 2 * panels; v++) {
            float *y = t->y + r * t->y_stride + v * 16;
            __m512 sum = t->first ? _mm512_setzero_ps() : _mm512_loadu_ps(y);
            _mm512_storeu_ps(y, _mm512_fmadd_ps(part[r][v], _mm512_set1_ps(t->s[v / 2][r]), sum));
        }
}

ALWAYS_INLINE void tile_of_type(enum weight_type type, const struct matmul_tile *t) {
    /* clang-format off */
    switch (t->panels == 2 ? t->rows + 100 : t->rows) {
    case 1: tile(type, 1, 1, t); break;
    case 2: tile(type, 2, 1, t); break;
    case 3: tile(type, 3, 1, t); break;
    case 4: tile(type, 4, 1, t); break;
    case 5: tile(type, 5, 1, t); break;
    case 6: tile(type, 6, 1, t); break;
    case 7: tile(type, 7, 1, t); break;
    case 8: tile(type, 8, 1, t); break;
    case 9: tile(type, 9, 1, t); break;
    case 10: tile(type, 10, 1, t); break;
    case 11: tile(type, 11, 1, t); break;
    case 12: tile(type, 12, 1, t); break;
    case 101: tile(type, 1, 2, t); break;
    case 102: tile(type, 2, 2, t); break;
    case 103: tile(type, 3, 2, t); break;
    case 104: tile(type, 4, 2, t); break;
    case 105: tile(type, 5, 2, t); break;
    case 106: tile(type, 6, 2, t); break;
    default: __builtin_unreachable();
    }
    /* clang-format on */
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
    __m512 factor = _mm512_set1_ps(lift ? 0x1p8f : 1.0f);
    for (uint32_t i = 0; i < count; i += 16) {
        __mmask16 mask = count - i >= 16 ? 0xFFFF : (__mmask16)((1u << (count - i)) - 1);
        _mm512_storeu_ps((float *)out + i,
                         _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), factor));
    }
}

ALWAYS_INLINE void decode_type(enum weight_type type, float *out, const char *w, uint32_t count) {
    for (size_t k = 0; k < count; k++) {
        __m512 weights[2];
        load_channel(type, w, k, weights);
        _mm512_storeu_ps(out + k * MATMUL_PANEL, weights[0]);
        _mm512_storeu_ps(out + k * MATMUL_PANEL + 16, weights[1]);
    }
}

static void decode(void *out, enum weight_type type, const void *w, uint32_t count) {
    if (type == WEIGHT_FP8)
        decode_type(WEIGHT_FP8, out, w, count);
    else
        decode_type(WEIGHT_BF16, out, w, count);
}

void matmul_avx512_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    static const struct matmul_leaf leaf = {
        .tile_rows = ROWS,
        .direct_rows = DIRECT_ROWS,
        .pair_rows = PAIR_ROWS,
        .pack_x = pack_x,
        .decode = decode,
        .tile = run_tile,
    };
    matmul_blocked_run(&leaf, job, panel_first, panel_count);
}
