/* SPDX-License-Identifier: Apache-2.0
 * Matrix products with AVX-512 BF16 (matmul.h says what is computed, matmul_blocked.h what a panel,
 * a block and a tile are). VDPBF16PS multiplies two input channels at once, so the weights of two
 * channels are brought side by side.
 *
 * Used when x is representable in BF16 (values of E4M3 codes are) and the weights are FP8 or BF16;
 * anything else goes to matmul_avx512.c.
 *
 * FP8 becomes BF16 by table: the seven bits of a code's magnitude choose one of 128 low and one of
 * 128 high bytes (VPERMI2B of AVX-512-VBMI), so 64 codes cost six instructions, five of them
 * shuffles, which go beside the products.
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

#include "compute/kernels/bf16_dot.h"
#include "compute/kernels/matmul_blocked.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define ROWS 12        /* of a tile of one panel: 24 of the 32 registers are sums */
#define PAIR_ROWS 5    /* of a tile of two panels */
#define DIRECT_ROWS 48 /* 4 tiles that convert the codes again take as long as decoding them once */

#ifdef KERNEL_EMULATE_BF16
#define matmul_avx512bf16_run matmul_avx512bf16_emulated_run
void matmul_avx512bf16_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
#endif

/* The BF16 bits of the codes 0x00 to 0x7F, low bytes and high bytes. Above the subnormal codes the
 * exponent e of E4M3 becomes e + 120, and the fraction's three bits go to the top of BF16's seven. */
#define EIGHT(byte) byte, byte, byte, byte, byte, byte, byte, byte
#define EVEN_LOW 0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70
#define ODD_LOW 0x80, 0x90, 0xA0, 0xB0, 0xC0, 0xD0, 0xE0, 0xF0
#define FOUR_LOW ODD_LOW, EVEN_LOW, ODD_LOW, EVEN_LOW
#define SUBNORMAL_LOW 0x00, 0x00, 0x80, 0xC0, 0x00, 0x20, 0x40, 0x60
#define SUBNORMAL_HIGH 0x00, 0x3B, 0x3B, 0x3B, 0x3C, 0x3C, 0x3C, 0x3C
#define TWO_HIGH(byte) EIGHT(byte), EIGHT(byte)
static const uint8_t code_low[2][64] = {
    {SUBNORMAL_LOW, FOUR_LOW, ODD_LOW, EVEN_LOW, ODD_LOW},
    {EVEN_LOW, FOUR_LOW, ODD_LOW, EVEN_LOW, ODD_LOW},
};
static const uint8_t code_high[2][64] = {
    {SUBNORMAL_HIGH, EIGHT(60), TWO_HIGH(61), TWO_HIGH(62), TWO_HIGH(63)},
    {TWO_HIGH(64), TWO_HIGH(65), TWO_HIGH(66), TWO_HIGH(67)},
};

/* Where each byte of 2 x 32 codes goes before they are looked up: channel k and k + 1 of an output
 * beside each other, four outputs of the low half and four of the high half in each 128 bits, since
 * the unpack instructions that join low and high bytes afterwards work within 128 bits. */
#define TWO_CODES(output) output, output + 32
#define EIGHT_CODES(first)                                                                         \
    TWO_CODES(first), TWO_CODES(first + 1), TWO_CODES(first + 2), TWO_CODES(first + 3)
#define QUARTER(first) EIGHT_CODES(first), EIGHT_CODES(first + 16)
static const uint8_t code_order[64] = {QUARTER(0), QUARTER(4), QUARTER(8), QUARTER(12)};
/* The tables above in registers. */
struct pairing {
    __m512i order, low[2], high[2], values[2];
};

ALWAYS_INLINE struct pairing load_pairing(void) {
    struct pairing pairing = {.order = _mm512_loadu_si512(code_order),
                              .values[0] = _mm512_loadu_si512(bf16_beside)};
    pairing.values[1] = _mm512_add_epi16(pairing.values[0], _mm512_set1_epi16(16));
    for (int half = 0; half < 2; half++) {
        pairing.low[half] = _mm512_loadu_si512(code_low[half]);
        pairing.high[half] = _mm512_loadu_si512(code_high[half]);
    }
    return pairing;
}

#ifdef KERNEL_EMULATE_BF16
static __m512i reorder(__m512i order, __m512i bytes) {
    uint8_t from[64], to[64];
    _mm512_storeu_si512(from, bytes);
    _mm512_storeu_si512(to, order);
    for (int i = 0; i < 64; i++)
        to[i] = from[to[i]];
    return _mm512_loadu_si512(to);
}

static __m512i lookup(const __m512i table[2], __m512i codes) {
    uint8_t values[128], bytes[64];
    _mm512_storeu_si512(values, table[0]);
    _mm512_storeu_si512(values + 64, table[1]);
    _mm512_storeu_si512(bytes, codes);
    for (int i = 0; i < 64; i++)
        bytes[i] = values[bytes[i] & 0x7F];
    return _mm512_loadu_si512(bytes);
}
#else
ALWAYS_INLINE __m512i reorder(__m512i order, __m512i bytes) {
    return _mm512_permutexvar_epi8(order, bytes);
}

ALWAYS_INLINE __m512i lookup(const __m512i table[2], __m512i codes) {
    return _mm512_permutex2var_epi8(table[0], codes, table[1]);
}
#endif

/* What a tile reads its weights from. */
enum bf16_source {
    SOURCE_CODES,  /* a packed panel of FP8 */
    SOURCE_VALUES, /* a packed panel of BF16 */
    SOURCE_PAIRS   /* what decode wrote */
};

/* Channels k and k + 1 of a panel, k even: for each of the 32 outputs both weights in 32 bits.
 * `single`: there is no channel k + 1, and zeros stand for it. */
ALWAYS_INLINE void load_pairs(enum bf16_source source, const struct pairing *pairing, const char *w,
                              size_t k, bool single, __m512i out[2]) {
    if (source == SOURCE_PAIRS) {
        out[0] = _mm512_loadu_si512(w + k * 64);
        out[1] = _mm512_loadu_si512(w + k * 64 + 64);
    } else if (source == SOURCE_VALUES) {
        __m512i even = _mm512_loadu_si512(w + k * 64);
        __m512i odd = single ? _mm512_setzero_si512() : _mm512_loadu_si512(w + k * 64 + 64);
        out[0] = _mm512_permutex2var_epi16(even, pairing->values[0], odd);
        out[1] = _mm512_permutex2var_epi16(even, pairing->values[1], odd);
    } else {
        __m512i codes = _mm512_maskz_loadu_epi32(single ? 0xFF : 0xFFFF, w + k * 32);
        codes = reorder(pairing->order, codes);
        __m512i low = lookup(pairing->low, codes), high = lookup(pairing->high, codes);
        /* high | (codes & sign) */
        high = _mm512_ternarylogic_epi32(high, codes, _mm512_set1_epi8((char)0x80), 0xF8);
        out[0] = _mm512_unpacklo_epi8(low, high);
        out[1] = _mm512_unpackhi_epi8(low, high);
    }
}

/* part[rows][32 panels] += channels k and k + 1. */
ALWAYS_INLINE void multiply_pair(enum bf16_source source, const struct pairing *pairing, int rows,
                                 int panels, bool single, const struct matmul_tile *t, size_t k,
                                 __m512 part[ROWS][2 * TILE_PANELS_MAX]) {
    __m512i weights[2 * TILE_PANELS_MAX];
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++) {
        load_pairs(source, pairing, (const char *)t->w + p * t->panel_bytes, k, single,
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
    struct pairing pairing = load_pairing();
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

ALWAYS_INLINE void tile_of_source(enum bf16_source source, const struct matmul_tile *t) {
    /* clang-format off */
    switch (t->panels == 2 ? t->rows + 100 : t->rows) {
    case 1: tile(source, 1, 1, t); break;
    case 2: tile(source, 2, 1, t); break;
    case 3: tile(source, 3, 1, t); break;
    case 4: tile(source, 4, 1, t); break;
    case 5: tile(source, 5, 1, t); break;
    case 6: tile(source, 6, 1, t); break;
    case 7: tile(source, 7, 1, t); break;
    case 8: tile(source, 8, 1, t); break;
    case 9: tile(source, 9, 1, t); break;
    case 10: tile(source, 10, 1, t); break;
    case 11: tile(source, 11, 1, t); break;
    case 12: tile(source, 12, 1, t); break;
    case 101: tile(source, 1, 2, t); break;
    case 102: tile(source, 2, 2, t); break;
    case 103: tile(source, 3, 2, t); break;
    case 104: tile(source, 4, 2, t); break;
    case 105: tile(source, 5, 2, t); break;
    default: __builtin_unreachable();
    }
    /* clang-format on */
}

static void run_tile(const struct matmul_tile *t) {
    if (t->decoded)
        tile_of_source(SOURCE_PAIRS, t);
    else if (t->type == WEIGHT_FP8)
        tile_of_source(SOURCE_CODES, t);
    else
        tile_of_source(SOURCE_VALUES, t);
}

/* A row's `count` channels as BF16: the high halves of floats, which lose nothing. Writes whole
 * groups of 16, filled up with zeros, so an odd last channel has a zero beside it. Products of BF16
 * need no `lift`. */
static void pack_x(void *out, const float *x, uint32_t count, bool lift) {
    for (uint32_t i = 0; i < count; i += 16) {
        __mmask16 mask = count - i >= 16 ? 0xFFFF : (__mmask16)((1u << (count - i)) - 1);
        __m512i bits = _mm512_castps_si512(_mm512_maskz_loadu_ps(mask, x + i));
        _mm256_storeu_si256((__m256i *)(void *)((char *)out + i * 2),
                            _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
    }
}

/* A panel's `count` channels as load_pairs makes them: 128 bytes for each pair. */
static void decode(void *out, enum weight_type type, const void *w, uint32_t count) {
    struct pairing pairing = load_pairing();
    for (size_t k = 0; k < count; k += 2) {
        __m512i pairs[2];
        if (type == WEIGHT_FP8)
            load_pairs(SOURCE_CODES, &pairing, w, k, k + 1 == count, pairs);
        else
            load_pairs(SOURCE_VALUES, &pairing, w, k, k + 1 == count, pairs);
        _mm512_storeu_si512((char *)out + k * 64, pairs[0]);
        _mm512_storeu_si512((char *)out + k * 64 + 64, pairs[1]);
    }
}

void matmul_avx512bf16_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    static const struct matmul_leaf leaf = {
        .tile_rows = ROWS,
        .pair_rows = PAIR_ROWS,
        .few_rows = ROWS,
        .direct_rows = DIRECT_ROWS,
        .x_bytes = sizeof(uint16_t),
        .pack_x = pack_x,
        .decode = decode,
        .tile = run_tile,
    };
    bool representable = job->x_is_bf16 || job->x_scales;
    if (representable && job->weights->type != WEIGHT_F32)
        matmul_blocked_run(&leaf, job, panel_first, panel_count);
    else
        matmul_avx512_run(job, panel_first, panel_count);
}
