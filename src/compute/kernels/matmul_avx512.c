/* SPDX-License-Identifier: Apache-2.0
 * The AVX-512 leaf of matmul_blocked.h, with the arithmetic of matmul.h: the sums of up to 12 rows
 * by 32 outputs, or 6 by 64, stay in registers over a block of 128 channels.
 *
 * FP8 becomes float through half-floats: sign-extended to 16 bits, moved left by 7 and rid of the
 * second sign bit, a code is a half-float of its value times 2^-8, subnormal codes included, and
 * VCVTPH2PS is exact. It reads half-floats from memory, because its form with a register source
 * needs a shuffle more: a few rows take them from the tile's scratch, written a block ahead; for
 * many rows a block of weights is decoded to floats once.
 *
 * Codes of four bits become floats by a table of 16 (VPERMPS). A group's sums join y before the
 * next group.
 */
#include "compute/kernels/tables.h"

#include <immintrin.h>

#include "compute/kernels/code_values.h"
#include "compute/kernels/matmul_blocked.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define ROWS 12             /* of a tile of one panel: 24 of the 32 registers are sums */
#define PAIR_ROWS 6         /* of a tile of two panels */
#define PREFETCH_BYTES 1536 /* how far ahead of the weights being read */

/* The source of a tile's weights. */
enum avx512_source {
    SOURCE_HALF,      /* half-floats of FP8 codes, in a near cache */
    SOURCE_HALF_NEXT, /* the same, each replaced by one of the next block once it is read */
    SOURCE_BF16,      /* a packed panel in memory */
    SOURCE_F32,       /* a packed panel in memory */
    SOURCE_DECODED,   /* floats in a near cache */
    SOURCE_CODES,     /* a packed panel in memory, of codes of four bits */
    SOURCE_GROUPS     /* floats of such codes in a near cache */
};

/* 32 codes to half-floats of their values times 2^-8. */
ALWAYS_INLINE __m512i halves_of(const char *codes) {
    __m256i code = _mm256_loadu_si256((const __m256i *)(const void *)codes);
    __m512i half = _mm512_slli_epi16(_mm512_cvtepi8_epi16(code), 7);
    return _mm512_and_si512(half, _mm512_set1_epi16((short)0xBF80));
}

/* 16 weights of the panel at w as floats: outputs [16 v, 16 v + 16) of channel k. */
ALWAYS_INLINE __m512 load_weights(enum avx512_source source, const char *w, size_t k, size_t v) {
    size_t at = k * 2 + v;
    if (source == SOURCE_F32 || source == SOURCE_DECODED) return _mm512_loadu_ps(w + at * 64);
    __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)(w + at * 32));
    if (source == SOURCE_HALF || source == SOURCE_HALF_NEXT) return _mm512_cvtph_ps(bits);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/* Writes the half-floats of channel k of the codes at t->ahead into scratch[panel][k][32]; `panel`
 * is 0 or 1, of the tile's. */
ALWAYS_INLINE void stage(const struct matmul_tile *t, size_t panel, size_t k) {
    const char *codes = t->ahead + panel * t->ahead_stride + k * MATMUL_PANEL;
    uint16_t *half = (uint16_t *)t->scratch + (panel * QUANT_GROUP + k) * MATMUL_PANEL;
    _mm512_store_si512(half, halves_of(codes));
    _mm_prefetch(codes + PREFETCH_BYTES, _MM_HINT_T0);
}

/* y[r][0..32 panels) += the block's product times s (from 0 with t->first). While channel k is
 * multiplied, a cache line of what will be read later is fetched or, from codes, converted. */
ALWAYS_INLINE void tile(enum avx512_source source, int rows, int panels,
                        const struct matmul_tile *t) {
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
            const char *panel = w + p * t->panel_bytes;
            weights[2 * p] = load_weights(source, panel, k, 0);
            weights[2 * p + 1] = load_weights(source, panel, k, 1);
            if (source == SOURCE_HALF_NEXT)
                stage(t, p, k);
            else if (source == SOURCE_HALF)
                _mm_prefetch(t->ahead + p * t->ahead_stride + k * MATMUL_PANEL, _MM_HINT_T0);
            else if (source != SOURCE_DECODED)
                _mm_prefetch(panel + k * (source == SOURCE_F32 ? 128 : 64) + PREFETCH_BYTES,
                             _MM_HINT_T0);
            else
                _mm_prefetch(t->ahead + k * t->ahead_step, _MM_HINT_T0);
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

ALWAYS_INLINE __m512 load_code_values(enum weight_type type) {
    const __m128i *values = (const __m128i *)(const void *)code_values_of(type);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(values)));
}

/* The codes of 16 outputs and eight channels: those of the even channels ascend in the lower halves
 * of the words, those of the odd ones in the upper halves. */
struct code_words {
    __m512i even, odd;
};

ALWAYS_INLINE struct code_words load_codes(const char *w) {
    struct code_words words = {.even = _mm512_loadu_si512(w)};
    words.odd = _mm512_srli_epi32(words.even, 16);
    return words;
}

/* The next channel's floats; VPERMPS reads an index's four lowest bits. */
ALWAYS_INLINE __m512 next_codes(__m512i *words, __m512 values) {
    __m512 floats = _mm512_permutexvar_ps(*words, values);
    *words = _mm512_srli_epi32(*words, 4);
    return floats;
}

/* part[r][v] += eight channels of 16 outputs, from x[r][0] on. */
ALWAYS_INLINE void multiply_codes(int rows, const char *w, __m512 values, const float *x, int v,
                                  __m512 part[ROWS][2 * TILE_PANELS_MAX]) {
    struct code_words words = load_codes(w);
    _mm_prefetch(w + PREFETCH_BYTES, _MM_HINT_T0);
#pragma GCC unroll 8
    for (int c = 0; c < 8; c++) {
        __m512 weights = next_codes(c % 2 ? &words.odd : &words.even, values);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            part[r][v] =
                _mm512_fmadd_ps(_mm512_set1_ps(x[r * QUANT_GROUP + c]), weights, part[r][v]);
    }
}

/* Joins a group's sums with y. */
ALWAYS_INLINE void end_group(int rows, int panels, const struct matmul_tile *t, size_t first,
                             __m512 part[ROWS][2 * TILE_PANELS_MAX]) {
#pragma GCC unroll 4
    for (int v = 0; v < 2 * panels; v++) {
        const uint16_t *at = t->group_scales + (size_t)(v / 2) * t->group_scale_stride +
                             first / t->group * MATMUL_PANEL + v % 2 * 16;
        __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)at);
        __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            float *y = t->y + r * t->y_stride + v * 16;
            __m512 sum = t->first && !first ? _mm512_setzero_ps() : _mm512_loadu_ps(y);
            __m512 s = _mm512_mul_ps(_mm512_set1_ps(t->s[v / 2][r]), scale);
            _mm512_storeu_ps(y, _mm512_fmadd_ps(part[r][v], s, sum));
        }
    }
}

ALWAYS_INLINE void group_tile(enum avx512_source source, int rows, int panels,
                              const struct matmul_tile *t) {
    const __m512 values = load_code_values(t->type);
    const float *x = t->x;
    for (size_t first = 0; first < t->count; first += t->group) {
        __m512 part[ROWS][2 * TILE_PANELS_MAX];
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < 2 * panels; v++)
                part[r][v] = _mm512_setzero_ps();
        const size_t end = first + t->group;
        for (size_t k = first; source == SOURCE_CODES && k < end; k += 8)
#pragma GCC unroll 4
            for (int v = 0; v < 2 * panels; v++)
                multiply_codes(rows,
                               (const char *)t->w + (size_t)(v / 2) * t->panel_bytes +
                                   k * packed_channel_bytes(WEIGHT_INT4_32) + v % 2 * 64,
                               values, x + k, v, part);
#pragma GCC unroll 2
        for (size_t k = first; source == SOURCE_GROUPS && k < end; k++) {
            __m512 low = load_weights(SOURCE_DECODED, t->w, k, 0);
            __m512 high = load_weights(SOURCE_DECODED, t->w, k, 1);
            _mm_prefetch(t->ahead + k * t->ahead_step, _MM_HINT_T0);
#pragma GCC unroll 12
            for (int r = 0; r < rows; r++) {
                __m512 factor = _mm512_set1_ps(x[r * QUANT_GROUP + k]);
                part[r][0] = _mm512_fmadd_ps(factor, low, part[r][0]);
                part[r][1] = _mm512_fmadd_ps(factor, high, part[r][1]);
            }
        }
        end_group(rows, panels, t, first, part);
    }
}

ALWAYS_INLINE void any_tile(enum avx512_source source, int rows, int panels,
                            const struct matmul_tile *t) {
    if (source == SOURCE_CODES || source == SOURCE_GROUPS)
        group_tile(source, rows, panels, t);
    else
        tile(source, rows, panels, t);
}

/* Calls tile with t's rows and panels as constants: only then its arrays are registers. */
ALWAYS_INLINE void tile_of_source(enum avx512_source source, const struct matmul_tile *t) {
    /* clang-format off */
    switch (t->panels == 2 ? t->rows + 100 : t->rows) {
    case 1: any_tile(source, 1, 1, t); break;
    case 2: any_tile(source, 2, 1, t); break;
    case 3: any_tile(source, 3, 1, t); break;
    case 4: any_tile(source, 4, 1, t); break;
    case 5: any_tile(source, 5, 1, t); break;
    case 6: any_tile(source, 6, 1, t); break;
    case 7: any_tile(source, 7, 1, t); break;
    case 8: any_tile(source, 8, 1, t); break;
    case 9: any_tile(source, 9, 1, t); break;
    case 10: any_tile(source, 10, 1, t); break;
    case 11: any_tile(source, 11, 1, t); break;
    case 12: any_tile(source, 12, 1, t); break;
    case 101: any_tile(source, 1, 2, t); break;
    case 102: any_tile(source, 2, 2, t); break;
    case 103: any_tile(source, 3, 2, t); break;
    case 104: any_tile(source, 4, 2, t); break;
    case 105: any_tile(source, 5, 2, t); break;
    case 106: any_tile(source, 6, 2, t); break;
    default: __builtin_unreachable();
    }
    /* clang-format on */
}

/* A tile of packed FP8. The tile before has left this one's half-floats in scratch, except at the
 * first block and at one of fewer channels. */
static void run_fp8_tile(const struct matmul_tile *t) {
    struct matmul_tile from_scratch = *t;
    from_scratch.w = t->scratch;
    from_scratch.panel_bytes = QUANT_GROUP * MATMUL_PANEL * sizeof(uint16_t);
    if (!t->staged) {
        struct matmul_tile this_block = *t;
        this_block.ahead = t->w;
        for (uint32_t p = 0; p < t->panels; p++)
            for (size_t k = 0; k < t->count; k++)
                stage(&this_block, p, k);
    }
    if (t->stage_next)
        tile_of_source(SOURCE_HALF_NEXT, &from_scratch);
    else
        tile_of_source(SOURCE_HALF, &from_scratch);
}

static void run_tile(const struct matmul_tile *t) {
    if (t->group)
        tile_of_source(t->decoded ? SOURCE_GROUPS : SOURCE_CODES, t);
    else if (t->decoded || !t->prefetch) /* without prefetch: F32, which needs no decoding */
        tile_of_source(SOURCE_DECODED, t);
    else if (t->type == WEIGHT_F32)
        tile_of_source(SOURCE_F32, t);
    else if (t->type == WEIGHT_FP8)
        run_fp8_tile(t);
    else
        tile_of_source(SOURCE_BF16, t);
}

/* x as floats, zeros up to a multiple of 16; `lift` cancels the 2^-8 of FP8's half-floats. */
static void pack_x(void *out, const float *x, uint32_t count, bool lift) {
    __m512 factor = _mm512_set1_ps(lift ? 0x1p8f : 1.0f);
    for (uint32_t i = 0; i < count; i += 16) {
        __mmask16 mask = count - i >= 16 ? 0xFFFF : (__mmask16)((1u << (count - i)) - 1);
        _mm512_storeu_ps((float *)out + i,
                         _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), factor));
    }
}

static void pack_bf16(void *out, const uint16_t *x, uint32_t count, bool lift) {
    __m512 factor = _mm512_set1_ps(lift ? 0x1p8f : 1.0f);
    for (uint32_t i = 0; i < count; i += 16) { /* x is filled up with zeros */
        __m512i bits =
            _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(x + i)));
        __m512 values = _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
        _mm512_storeu_ps((float *)out + i, _mm512_mul_ps(values, factor));
    }
}

static void decode_codes(float *to, enum weight_type type, const char *w, uint32_t count) {
    const __m512 values = load_code_values(type);
    for (size_t k = 0; k < count; k += 8)
        for (size_t v = 0; v < 2; v++) {
            struct code_words words = load_codes(w + k * packed_channel_bytes(type) + v * 64);
            for (size_t c = 0; c < 8; c++)
                _mm512_storeu_ps(to + (k + c) * MATMUL_PANEL + v * 16,
                                 next_codes(c % 2 ? &words.odd : &words.even, values));
        }
}

/* Packed w[count][32] to floats out[count][32], FP8 times 2^-8. The half-floats of a channel are
 * put where its floats will be, for VCVTPH2PS to read. */
static void decode(void *out, enum weight_type type, const void *w, uint32_t count) {
    float *to = out;
    if (weight_type_group(type)) {
        decode_codes(to, type, w, count);
        return;
    }
    for (size_t k = 0; k < count; k++, to += MATMUL_PANEL) {
        enum avx512_source source = SOURCE_BF16;
        const char *from = (const char *)w + k * MATMUL_PANEL * 2;
        if (type == WEIGHT_FP8) {
            source = SOURCE_HALF;
            from = (const char *)to;
            _mm512_store_si512(to, halves_of((const char *)w + k * MATMUL_PANEL));
        }
        __m512 low = load_weights(source, from, 0, 0), high = load_weights(source, from, 0, 1);
        _mm512_storeu_ps(to, low);
        _mm512_storeu_ps(to + 16, high);
    }
}

void matmul_avx512_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    static const struct matmul_leaf leaf = {
        .tile_rows = ROWS,
        .pair_rows = PAIR_ROWS,
        .direct_rows = ROWS,
        .x_bytes = sizeof(float),
        .pack_x = pack_x,
        .pack_bf16 = pack_bf16,
        .decode = decode,
        .tile = run_tile,
    };
    matmul_blocked_run(&leaf, job, panel_first, panel_count);
}
