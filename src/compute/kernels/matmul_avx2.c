/* SPDX-License-Identifier: Apache-2.0
 * Matrix products with AVX2, FMA and F16C: matmul_body.h, with tiles half a panel wide, or a whole
 * one for one or two rows. FP8 becomes float through half-floats, as in matmul_avx512.c. Codes of
 * four bits become integers of eight bits by a table of 16 (VPSHUFB), and those become floats.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/lanes_avx2.h"

#include "compute/kernels/code_values.h"
#include "compute/kernels/lanes.h"
#include "compute/kernels/matmul_blocked.h"

#define ROWS 6
#define WHOLE_ROWS 2
#define PAIR_ROWS 0
#define DIRECT_ROWS ROWS
#define PREFETCH_BYTES 4096 /* how far ahead of the weights being read */

ALWAYS_INLINE void load_16(enum tile_source source, const char *w, size_t k, size_t first,
                           lanes out[2]) {
    const size_t at = k * MATMUL_PANEL + first;
    if (source == TILE_FP8) {
        __m128i codes = _mm_loadu_si128((const __m128i *)(const void *)(w + at));
        __m256i half = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
        half = _mm256_and_si256(half, _mm256_set1_epi16((short)0xBF80));
        out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(half));
        out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1));
        return;
    }
    for (size_t v = 0; v < 2; v++)
        out[v] = source == TILE_BF16
                     ? load_bf16((const uint16_t *)(const void *)w + at + v * LANES, LANES)
                     : lanes_load((const float *)(const void *)w + at + v * LANES);
}

ALWAYS_INLINE void look_ahead(enum tile_source source, const struct matmul_tile *t, size_t panel,
                              size_t k) {
    const size_t bytes = source == TILE_FP8 ? 32 : source == TILE_BF16 ? 64 : 128;
    if (source == TILE_FLOATS || source == TILE_GROUPS)
        _mm_prefetch(t->ahead + k * t->ahead_step, _MM_HINT_T0);
    else
        _mm_prefetch((const char *)t->w + k * bytes + PREFETCH_BYTES, _MM_HINT_T0);
}

/* Codes as integers: in each word those of channels 0, 4, 1 and 5, and those of 2, 6, 3 and 7. */
struct avx2_codes {
    __m256i of[2];
};
typedef struct avx2_codes lane_codes;

ALWAYS_INLINE lane_codes load_codes(enum weight_type type, const char *w) {
    const __m256i values = _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)(const void *)code_values_of(type)));
    const __m256i low = _mm256_set1_epi8(15);
    __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)w);
    _mm_prefetch(w + PREFETCH_BYTES, _MM_HINT_T0);
    return (lane_codes){
        {_mm256_shuffle_epi8(values, _mm256_and_si256(words, low)),
         _mm256_shuffle_epi8(values, _mm256_and_si256(_mm256_srli_epi32(words, 4), low))}};
}

ALWAYS_INLINE lanes next_code(lane_codes *codes, int c) {
    const int byte = c % 2 * 2 + c / 4;
    __m256i top = _mm256_slli_epi32(codes->of[c / 2 % 2], 24 - 8 * byte);
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(top, 24));
}

#include "compute/kernels/matmul_body.h"

static void decode_fp8(float *out, const char *w, uint32_t count) {
    decode_source(TILE_FP8, out, w, count);
}

static void run_fp8_tile(const struct matmul_tile *t) {
    tile_of_source(TILE_FP8, t);
}

void matmul_avx2_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    if (job->x_int8) {
        matmul_int8_run_256(job, panel_first, panel_count);
        return;
    }
    multiply(job, panel_first, panel_count);
}
