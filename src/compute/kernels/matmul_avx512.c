/* SPDX-License-Identifier: Apache-2.0
 * Matrix products with AVX-512: matmul_body.h, with tiles of up to 12 rows by 32 outputs, or 6 by
 * 64.
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

#include "compute/kernels/lanes_avx512.h"

#include "compute/kernels/code_values.h"
#include "compute/kernels/lanes.h"
#include "compute/kernels/matmul_blocked.h"

#define ROWS 12 /* 24 of the 32 registers are sums */
#define WHOLE_ROWS ROWS
#define PAIR_ROWS 6
#define DIRECT_ROWS ROWS
#define PREFETCH_BYTES 1536 /* how far ahead of the weights being read */

/* TILE_FP8: half-floats in a near cache; TILE_FP8_NEXT: the same, each replaced by one of the next
 * block once it is read. */
ALWAYS_INLINE void load_16(enum tile_source source, const char *w, size_t k, size_t first,
                           lanes out[1]) {
    const size_t at = k * MATMUL_PANEL + first;
    const uint16_t *halves = (const uint16_t *)(const void *)w + at;
    if (source == TILE_FP8 || source == TILE_FP8_NEXT)
        out[0] = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)halves));
    else if (source == TILE_BF16)
        out[0] = load_bf16(halves, LANES);
    else
        out[0] = lanes_load((const float *)(const void *)w + at);
}

/* 32 codes to half-floats of their values times 2^-8. */
ALWAYS_INLINE __m512i halves_of(const char *codes) {
    __m256i code = _mm256_loadu_si256((const __m256i *)(const void *)codes);
    __m512i half = _mm512_slli_epi16(_mm512_cvtepi8_epi16(code), 7);
    return _mm512_and_si512(half, _mm512_set1_epi16((short)0xBF80));
}

/* Writes the half-floats of channel k of the codes at t->ahead into scratch[panel][k][32]; `panel`
 * is 0 or 1, of the tile's. */
ALWAYS_INLINE void stage(const struct matmul_tile *t, size_t panel, size_t k) {
    const char *codes = t->ahead + panel * t->ahead_stride + k * MATMUL_PANEL;
    uint16_t *half = (uint16_t *)t->scratch + (panel * QUANT_GROUP + k) * MATMUL_PANEL;
    _mm512_store_si512(half, halves_of(codes));
    _mm_prefetch(codes + PREFETCH_BYTES, _MM_HINT_T0);
}

/* While channel k is multiplied, a cache line of what will be read later is fetched or, from codes,
 * converted. */
ALWAYS_INLINE void look_ahead(enum tile_source source, const struct matmul_tile *t, size_t panel,
                              size_t k) {
    const char *w = (const char *)t->w + panel * t->panel_bytes;
    if (source == TILE_FP8_NEXT)
        stage(t, panel, k);
    else if (source == TILE_FP8)
        _mm_prefetch(t->ahead + panel * t->ahead_stride + k * MATMUL_PANEL, _MM_HINT_T0);
    else if (source == TILE_FLOATS || source == TILE_GROUPS)
        _mm_prefetch(t->ahead + k * t->ahead_step, _MM_HINT_T0);
    else
        _mm_prefetch(w + k * (source == TILE_F32 ? 128 : 64) + PREFETCH_BYTES, _MM_HINT_T0);
}

/* Codes of the even channels ascend in the lower halves of the words, those of the odd ones in the
 * upper halves. */
struct avx512_codes {
    __m512i of[2];
    __m512 values;
};
typedef struct avx512_codes lane_codes;

ALWAYS_INLINE lane_codes load_codes(enum weight_type type, const char *w) {
    const __m128i *values = (const __m128i *)(const void *)code_values_of(type);
    lane_codes codes = {.of[0] = _mm512_loadu_si512(w)};
    codes.of[1] = _mm512_srli_epi32(codes.of[0], 16);
    codes.values = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(values)));
    _mm_prefetch(w + PREFETCH_BYTES, _MM_HINT_T0);
    return codes;
}

/* VPERMPS reads an index's four lowest bits. */
ALWAYS_INLINE lanes next_code(lane_codes *codes, int c) {
    lanes floats = _mm512_permutexvar_ps(codes->of[c % 2], codes->values);
    codes->of[c % 2] = _mm512_srli_epi32(codes->of[c % 2], 4);
    return floats;
}

#include "compute/kernels/matmul_body.h"

/* The half-floats of a channel are put where its floats will be, for VCVTPH2PS to read. */
static void decode_fp8(float *out, const char *w, uint32_t count) {
    for (size_t k = 0; k < count; k++, out += MATMUL_PANEL) {
        _mm512_store_si512(out, halves_of(w + k * MATMUL_PANEL));
        decode_source(TILE_FP8, out, (const char *)out, 1);
    }
}

/* The tile before has left this one's half-floats in scratch, except at the first block and at one
 * of fewer channels. */
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
        tile_of_source(TILE_FP8_NEXT, &from_scratch);
    else
        tile_of_source(TILE_FP8, &from_scratch);
}

void matmul_avx512_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    if (job->x_int8) {
        matmul_int8_run_512(job, panel_first, panel_count);
        return;
    }
    multiply(job, panel_first, panel_count);
}
