/* SPDX-License-Identifier: Apache-2.0
 * Matrix products with AVX-512 BF16 (matmul.h says what is computed, matmul_blocked.h what a panel,
 * a block and a tile are). VDPBF16PS multiplies two input channels at once, so the weights of two
 * channels are brought side by side.
 *
 * Used when x is representable in BF16 (values of E4M3 codes are), unless the weights are F32;
 * anything else goes to matmul_avx512.c. Codes of four bits become pairs by a table of 16 (VPERMW),
 * and a group's sums join y before the next group.
 *
 * Order of the sums: pairs of channels ascend, an odd last channel is paired with zero. Within a
 * pair the hardware decides (the odd channel first, denormals flushed); that is why this level is a
 * numerics class.
 *
 * KERNEL_EMULATE_BF16 builds the same code without VDPBF16PS and VPERMI2B, for tests on CPUs that
 * lack them.
 */
#include "compute/kernels/tables.h"

#include <immintrin.h>

#include "compute/kernels/bf16_weights.h"
#include "compute/kernels/matmul_blocked.h"

#define ROWS 12        /* of a tile of one panel: 24 of the 32 registers are sums */
#define PAIR_ROWS 5    /* of a tile of two panels */
#define DIRECT_ROWS 48 /* 4 tiles that convert the codes again take as long as decoding them once */

#ifdef KERNEL_EMULATE_BF16
#define matmul_avx512bf16_run matmul_avx512bf16_emulated_run
void matmul_avx512bf16_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
#endif

/* part[rows][32 panels] += channels k and k + 1. */
ALWAYS_INLINE void multiply_pair(enum bf16_source source, const struct bf16_pairing *pairing,
                                 int rows, int panels, bool single, const struct matmul_tile *t,
                                 size_t k, __m512 part[ROWS][2 * TILE_PANELS_MAX]) {
    __m512i weights[2 * TILE_PANELS_MAX];
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++) {
        bf16_load_pairs(source, pairing, (const char *)t->w + p * t->panel_bytes, k, single,
                        weights + 2 * p);
        const char *ahead = t->ahead + p * t->ahead_stride + k * t->ahead_step;
        _mm_prefetch(ahead, _MM_HINT_T0);
        if (source == SOURCE_VALUES) _mm_prefetch(ahead + 64, _MM_HINT_T0);
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        int32_t pair;
        memcpy(&pair, (const char *)t->x + ((size_t)r * QUANT_GROUP + k) * sizeof(uint16_t),
               sizeof pair);
        __m512i factor = _mm512_set1_epi32(pair);
#pragma GCC unroll 4
        for (int v = 0; v < 2 * panels; v++)
            part[r][v] = bf16_dot_pairs(part[r][v], weights[v], factor);
    }
}

/* Multiplies a tile of `rows` rows and `panels` panels, which are constants to the compiler: it
 * unrolls the loops and keeps `part` in registers. */
ALWAYS_INLINE void tile(enum bf16_source source, int rows, int panels,
                        const struct matmul_tile *t) {
    __m512 part[ROWS][2 * TILE_PANELS_MAX];
    struct bf16_pairing pairing = bf16_load_pairing();
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < 2 * panels; v++)
            part[r][v] = _mm512_setzero_ps();
    const size_t count = t->count;
    size_t k = 0;
    for (; k + 1 < count; k += 2)
        multiply_pair(source, &pairing, rows, panels, false, t, k, part);
    if (k < count) multiply_pair(source, &pairing, rows, panels, true, t, k, part);
    float *y = t->y; /* copies, since the compiler cannot know that y is not the tile */
    const size_t y_stride = t->y_stride;
    const __mmask16 keep = t->first ? 0 : 0xFFFF;
    __m512 scales[TILE_PANELS_MAX];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++, y += y_stride) {
        for (int p = 0; p < panels; p++)
            scales[p] = _mm512_set1_ps(t->s[p][r]);
#pragma GCC unroll 4
        for (int v = 0; v < 2 * panels; v++) {
            __m512 sum = _mm512_maskz_loadu_ps(keep, y + v * 16);
            _mm512_storeu_ps(y + v * 16, _mm512_fmadd_ps(part[r][v], scales[v / 2], sum));
        }
    }
}

/* Joins a group's sums with y. */
ALWAYS_INLINE void end_group(int rows, int panels, const struct matmul_tile *t, size_t first,
                             __m512 part[ROWS][2 * TILE_PANELS_MAX]) {
    const __mmask16 keep = t->first && !first ? 0 : 0xFFFF;
#pragma GCC unroll 4
    for (int v = 0; v < 2 * panels; v++) {
        const uint16_t *at = t->group_scales + (size_t)(v / 2) * t->group_scale_stride +
                             first / t->group * MATMUL_PANEL + v % 2 * 16;
        __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)at);
        __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            float *y = t->y + r * t->y_stride + v * 16;
            __m512 s = _mm512_mul_ps(_mm512_set1_ps(t->s[v / 2][r]), scale);
            _mm512_storeu_ps(y, _mm512_fmadd_ps(part[r][v], s, _mm512_maskz_loadu_ps(keep, y)));
        }
    }
}

/* part[rows][v] += channels k to k + 7 of 16 outputs. */
ALWAYS_INLINE void multiply_eight(enum bf16_source source, int rows, __m512i values,
                                  const struct matmul_tile *t, size_t k, int v,
                                  __m512 part[ROWS][2 * TILE_PANELS_MAX]) {
    const char *panel = (const char *)t->w + (size_t)(v / 2) * t->panel_bytes;
    const char *ahead = t->ahead + (size_t)(v / 2) * t->ahead_stride + k * t->ahead_step;
    __m512i words = _mm512_setzero_si512();
    if (source == SOURCE_NIBBLES) words = _mm512_loadu_si512(panel + k * 16 + v % 2 * 64);
    _mm_prefetch(ahead + v % 2 * 64, _MM_HINT_T0);
#pragma GCC unroll 4
    for (size_t i = k; i < k + 8; i += 2) {
        __m512i weights = source == SOURCE_NIBBLES ? bf16_next_nibbles(&words, values)
                                                   : _mm512_loadu_si512(panel + i * 64 + v * 64);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            int32_t pair;
            memcpy(&pair, (const char *)t->x + ((size_t)r * QUANT_GROUP + i) * sizeof(uint16_t),
                   sizeof pair);
            part[r][v] = bf16_dot_pairs(part[r][v], weights, _mm512_set1_epi32(pair));
        }
    }
}

ALWAYS_INLINE void group_tile(enum bf16_source source, int rows, int panels,
                              const struct matmul_tile *t) {
    const __m512i values = bf16_nibble_values(t->type);
    for (size_t first = 0; first < t->count; first += t->group) {
        __m512 part[ROWS][2 * TILE_PANELS_MAX];
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < 2 * panels; v++)
                part[r][v] = _mm512_setzero_ps();
        for (size_t k = first; k < first + t->group; k += 8)
#pragma GCC unroll 4
            for (int v = 0; v < 2 * panels; v++)
                multiply_eight(source, rows, values, t, k, v, part);
        end_group(rows, panels, t, first, part);
    }
}

ALWAYS_INLINE void any_tile(enum bf16_source source, int rows, int panels,
                            const struct matmul_tile *t) {
    if (source == SOURCE_NIBBLES || source == SOURCE_NIBBLE_PAIRS)
        group_tile(source, rows, panels, t);
    else
        tile(source, rows, panels, t);
}

ALWAYS_INLINE void tile_of_source(enum bf16_source source, const struct matmul_tile *t) {
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
    default: __builtin_unreachable();
    }
    /* clang-format on */
}

static void run_tile(const struct matmul_tile *t) {
    if (t->group)
        tile_of_source(t->decoded ? SOURCE_NIBBLE_PAIRS : SOURCE_NIBBLES, t);
    else if (t->decoded)
        tile_of_source(SOURCE_PAIRS, t);
    else if (t->type == WEIGHT_FP8)
        tile_of_source(SOURCE_CODES, t);
    else
        tile_of_source(SOURCE_VALUES, t);
}

void matmul_avx512bf16_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    static const struct matmul_leaf leaf = {
        .tile_rows = ROWS,
        .pair_rows = PAIR_ROWS,
        .direct_rows = DIRECT_ROWS,
        .x_bytes = sizeof(uint16_t),
        .pack_x = bf16_pack_x,
        .decode = bf16_decode,
        .tile = run_tile,
    };
    bool representable = !job->x_int8 && (job->x_is_bf16 || job->x_scales);
    if (representable && !weight_type_is_float(job->weights->type))
        matmul_blocked_run(&leaf, job, panel_first, panel_count);
    else
        matmul_avx512_run(job, panel_first, panel_count);
}
