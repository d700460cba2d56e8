/* SPDX-License-Identifier: Apache-2.0
 * Rows and weights as both kinds of matrix products with AMX take them. Private to
 * src/compute/kernels, for files that are compiled for AMX or emulate it; empty to others.
 */
#pragma once

#ifdef __AVX512F__
#include <string.h>

#include "base/number.h"
#include "compute/kernels/amx.h"
#include "compute/kernels/bf16_weights.h"
#include "compute/kernels/lanes_avx512.h"
#include "compute/kernels/tables.h"

#include "compute/kernels/lanes.h"

#ifdef KERNEL_EMULATE_BF16
#define matmul_amx_run matmul_amx_emulated_run
#define matmul_amx_whole matmul_amx_whole_emulated
#endif

#define AMX_CHUNK_ROWS 512 /* at most share one pass over the weights */
#define GROUP_ROWS 32      /* two squares high */
#define AHEAD_BLOCKS 2     /* weights are brought near so far before they are converted */
#define X_STRIDE (QUANT_GROUP * sizeof(uint16_t))
#define STEPS (QUANT_GROUP / AMX_CHANNELS)
#define STEP_BYTES (AMX_CHANNELS * MATMUL_PANEL * sizeof(uint16_t)) /* of a panel's pairs */

typedef char block_pairs[STEPS * STEP_BYTES];

/* Rows that share one pass over the weights. */
struct amx_chunk {
    const struct matmul *job;
    uint32_t row_first, rows;
    uint32_t blocks;   /* of all channels */
    const uint16_t *x; /* [blocks][x_block_stride], of the chunk's rows */
    size_t x_block_stride;
};

/* Panels of a product with rows without scales. */
void matmul_amx_whole(const struct amx_chunk *chunk, uint32_t panel_first, uint32_t panel_count);

/* A block of a panel. */
struct block_place {
    uint32_t panel, block;
};

static inline uint32_t amx_block_channels(const struct amx_chunk *chunk, uint32_t block) {
    uint32_t left = chunk->job->weights->cols - block * QUANT_GROUP;
    return left < QUANT_GROUP ? left : QUANT_GROUP;
}

static inline const char *amx_block_weights(const struct amx_chunk *chunk, struct block_place at) {
    const struct packed_matrix *weights = chunk->job->weights;
    size_t channel = (size_t)at.panel * weights->cols + at.block * QUANT_GROUP;
    return (const char *)weights->data + channel * packed_channel_bytes(weights->type);
}

static inline float amx_block_scale(const struct amx_chunk *chunk, struct block_place at) {
    const struct packed_matrix *weights = chunk->job->weights;
    size_t of_panel = at.panel * MATMUL_PANEL / QUANT_GROUP;
    return weights->type == WEIGHT_FP8 ? weights->scales[of_panel * chunk->blocks + at.block] : 1;
}

static inline float *amx_y(const struct amx_chunk *chunk, uint32_t row, uint32_t panel) {
    const struct matmul *job = chunk->job;
    return job->y + (chunk->row_first + row) * job->y_stride + (size_t)panel * MATMUL_PANEL;
}

/* ---- Weights ---- */

/* The tables that make BF16 pairs from weights. Codes: a code's exponent is 2h + e, and its lowest
 * four bits are e and the fraction. These choose the low and the high byte of code times scale as
 * if h were 0, and h, which multiplies by 4^h, is added to the high byte. Where h is 0 some codes
 * are subnormal: those 16 codes choose among the first 16 bytes, all others among the next. */
struct weight_values {
    __m512i order, low, high;    /* FP8 */
    struct bf16_pairing pairing; /* BF16 */
};

/* The results that four bits select: for codes with h = 0, and for all others. */
#define FRACTIONS(unit)                                                                            \
    unit * 8, unit * 9, unit * 10, unit * 11, unit * 12, unit * 13, unit * 14, unit * 15
static const float four_bits[2][16] = {
    {0, 0x1p-9f, 0x2p-9f, 0x3p-9f, 0x4p-9f, 0x5p-9f, 0x6p-9f, 0x7p-9f, FRACTIONS(0x1p-9f)},
    {FRACTIONS(0x1p-10f), FRACTIONS(0x1p-9f)},
};

/* With such a scale every product is a normal number, and h may be added to its exponent. */
static inline bool scale_is_usual(float scale) {
    return scale >= 0x1p-100f && scale <= 0x1p100f;
}

/* `scale`: a usual one, of FP8. */
ALWAYS_INLINE struct weight_values load_values(enum weight_type type, float scale) {
    struct weight_values values;
    if (type == WEIGHT_BF16) {
        values.pairing = bf16_load_pairing();
        return values;
    }
    values.order = _mm512_loadu_si512(code_order);
    __m128i low[2], high[2];
    for (int i = 0; i < 2; i++) {
        __m512 exact = _mm512_loadu_ps(four_bits[i]);
        __m512i rounded = (__m512i)bf16_bits(exact * scale);
        low[i] = _mm512_cvtepi32_epi8(rounded);
        high[i] = _mm512_cvtepi32_epi8(_mm512_srli_epi32(rounded, 8));
    }
    values.low = _mm512_castsi256_si512(_mm256_set_m128i(low[1], low[0]));
    values.high = _mm512_castsi256_si512(_mm256_set_m128i(high[1], high[0]));
    return values;
}

/* A product of bits (GF2P8AFFINEQB): byte 7 - i of the matrix chooses the bits of bit i. It goes to
 * another port than shuffles. */
#ifdef KERNEL_EMULATE_BF16
static __m512i multiply_bits(__m512i bytes, uint64_t matrix, int complement) {
    uint8_t of[64];
    _mm512_storeu_si512(of, bytes);
    for (int i = 0; i < 64; i++) {
        int bits = complement;
        for (int bit = 0; bit < 8; bit++)
            bits ^= __builtin_parity(of[i] & (uint8_t)(matrix >> 8 * (7 - bit))) << bit;
        of[i] = (uint8_t)bits;
    }
    return _mm512_loadu_si512(of);
}
#else
#define multiply_bits(bytes, matrix, complement)                                                   \
    _mm512_gf2p8affine_epi64_epi8(bytes, _mm512_set1_epi64(matrix), complement)
#endif

#define SIGN_AND_H 0x1020400000000080 /* of a code: bit 7, and bits 6 to 4 as bits 2 to 0 */

/* Two channels' codes become pairs. */
ALWAYS_INLINE void convert_codes(const struct weight_values *values, __m512i codes,
                                 __m512i pairs[2]) {
    codes = bf16_reorder(values->order, codes);
    __m512i size = _mm512_and_si512(codes, _mm512_set1_epi8(0x7F));
    __m512i which = _mm512_min_epu8(size, _mm512_set1_epi8(0x10)); /* 16, unless h is 0 */
    /* (size & 15) | (which & ~15) */
    which = _mm512_ternarylogic_epi32(size, which, _mm512_set1_epi8(0x0F), 0xE4);
    __m512i low = bf16_reorder(which, values->low), high = bf16_reorder(which, values->high);
    high = _mm512_add_epi8(high, multiply_bits(codes, SIGN_AND_H, 0));
    pairs[0] = _mm512_unpacklo_epi8(low, high);
    pairs[1] = _mm512_unpackhi_epi8(low, high);
}

/* Pairs of the 32 channels of a step; what lies at `further` is brought near. */
ALWAYS_INLINE void convert_step(enum weight_type type, const struct weight_values *values,
                                const char *from, const char *further, char *to, uint32_t step) {
    const size_t end = (step + 1) * AMX_CHANNELS, channel = packed_channel_bytes(type);
    for (size_t k = step * AMX_CHANNELS; k < end; k += 2) {
        __m512i pairs[2];
        _mm_prefetch(further + k * channel, _MM_HINT_T1);
        if (type == WEIGHT_FP8) {
            convert_codes(values, _mm512_loadu_si512(from + k * MATMUL_PANEL), pairs);
        } else {
            _mm_prefetch(further + (k + 1) * channel, _MM_HINT_T1);
            bf16_load_pairs(SOURCE_VALUES, &values->pairing, from, k, false, pairs);
        }
        _mm512_store_si512(to + k * 64, pairs[0]);
        _mm512_store_si512(to + k * 64 + 64, pairs[1]);
    }
}

/* A block's pairs, and zeros up to a whole step. FP8: times any scale. */
static inline void convert(const struct amx_chunk *chunk, struct block_place at, float scale,
                           char *to) {
    enum weight_type type = chunk->job->weights->type;
    const uint32_t count = amx_block_channels(chunk, at.block);
    const char *from = amx_block_weights(chunk, at);
    if (count < QUANT_GROUP) memset(to, 0, divide_up(count, AMX_CHANNELS) * STEP_BYTES);
    if (type == WEIGHT_BF16) {
        bf16_decode(to, type, from, count);
        return;
    }
    if (!scale_is_usual(scale)) {
        uint16_t *pairs = (uint16_t *)(void *)to;
        for (size_t k = 0; k < count; k++)
            for (size_t n = 0; n < MATMUL_PANEL; n++)
                pairs[(k / 2 * MATMUL_PANEL + n) * 2 + k % 2] =
                    bf16_from_float(float_from_e4m3((uint8_t)from[k * MATMUL_PANEL + n]) * scale);
        return;
    }
    struct weight_values values = load_values(WEIGHT_FP8, scale);
    for (size_t k = 0; k < count; k += 2) {
        __mmask16 mask =
            k + 1 < count ? 0xFFFF : 0xFF; /* an odd last channel is paired with zeros */
        __m512i pairs[2];
        convert_codes(&values, _mm512_maskz_loadu_epi32(mask, from + k * MATMUL_PANEL), pairs);
        _mm512_store_si512(to + k * 64, pairs[0]);
        _mm512_store_si512(to + k * 64 + 64, pairs[1]);
    }
}

#endif /* __AVX512F__ */
