/* SPDX-License-Identifier: Apache-2.0
 * Matrix products with AVX-512 BF16 (matmul.h says what is computed, matmul_blocked.h what a panel,
 * a block and a tile are). VDPBF16PS multiplies two input channels at once, so the weights of two
 * channels are interleaved. Unpack instructions do that, and leave the 32 outputs of a panel in the
 * unpacked order (load_channel_pair); add_block undoes it when a block's sums are added to y.
 *
 * Used when x is representable in BF16 (values of E4M3 codes are) and the weights are FP8 or BF16;
 * anything else goes to matmul_avx512.c.
 *
 * Order of the sums: pairs of channels ascend, an odd last channel is paired with zero. Within a
 * pair the hardware decides (the odd channel first, denormals flushed); that is why this level is a
 * numerics class.
 *
 * KERNEL_EMULATE_BF16 builds the same code without VDPBF16PS, for tests on CPUs that lack it.
 */
#include "compute/kernels/tables.h"

#include <immintrin.h>

#include "compute/kernels/matmul_blocked.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define ROWS 12     /* tile_rows, pair_rows and direct_rows of struct matmul_leaf */
#define PAIR_ROWS 4 /* of two panels */
#define DIRECT_ROWS 4
#define PREFETCH_BYTES 1024 /* how far before packed weights are read they are asked for */

#ifdef KERNEL_EMULATE_BF16
#define matmul_avx512bf16_run matmul_avx512bf16_emulated_run
void matmul_avx512bf16_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);

/* sum + a * b for the two BF16 values in each 32 bits. A product of two BF16 values is exact in a
 * float, so an fma rounds as VDPBF16PS does; only denormals, which that flushes, may differ. */
ALWAYS_INLINE __m512 dot_pairs(__m512 sum, __m512i a, __m512i b) {
    __m512i high = _mm512_set1_epi32((int)0xFFFF0000);
    sum = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(a, high)),
                          _mm512_castsi512_ps(_mm512_and_si512(b, high)), sum);
    return _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(a, 16)),
                           _mm512_castsi512_ps(_mm512_slli_epi32(b, 16)), sum);
}
#else
ALWAYS_INLINE __m512 dot_pairs(__m512 sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}
#endif

/* BF16 bits of 32 E4M3 codes (no NaN codes: loaders refuse them). Normal codes: exponent and
 * fraction move to their places, and the exponent's bias grows from 7 to 127; zero and the seven
 * subnormal codes come from a table. */
ALWAYS_INLINE __m512i bf16_from_codes(__m256i codes) {
    static const uint16_t subnormals[32] = {0,      0x3B00, 0x3B80, 0x3BC0,
                                            0x3C00, 0x3C20, 0x3C40, 0x3C60};
    __m512i wide = _mm512_cvtepi8_epi16(codes);
    __m512i magnitude = _mm512_and_si512(wide, _mm512_set1_epi16(0x7F));
    __m512i sign = _mm512_and_si512(wide, _mm512_set1_epi16((short)0x8000));
    __m512i bits = _mm512_add_epi16(_mm512_slli_epi16(magnitude, 4), _mm512_set1_epi16(120 << 7));
    __mmask32 is_subnormal = _mm512_testn_epi16_mask(wide, _mm512_set1_epi16(0x78));
    bits = _mm512_mask_permutexvar_epi16(bits, is_subnormal, magnitude,
                                         _mm512_loadu_si512(subnormals));
    return _mm512_or_si512(bits, sign);
}

/* Channel k of a packed panel: its 32 weights in BF16. */
ALWAYS_INLINE __m512i load_channel(enum weight_type type, const char *w, uint32_t k) {
    if (type == WEIGHT_FP8)
        return bf16_from_codes(
            _mm256_loadu_si256((const __m256i *)(const void *)(w + (size_t)k * 32)));
    return _mm512_loadu_si512(w + (size_t)k * 64);
}

/* Channels k and k + 1 of a panel of `count` channels, k even: for each output the two weights side
 * by side, in the unpacked order: quarter q (128 bits) of out[0] has the outputs 8q to 8q + 3, that
 * of out[1] the outputs 8q + 4 to 8q + 7. `decoded`: w is what decode wrote, and `type` is not
 * looked at. */
ALWAYS_INLINE void load_channel_pair(enum weight_type type, bool decoded, const char *w, uint32_t k,
                                     uint32_t count, __m512i out[2]) {
    if (decoded) {
        out[0] = _mm512_loadu_si512(w + (size_t)k * 64);
        out[1] = _mm512_loadu_si512(w + (size_t)k * 64 + 64);
        return;
    }
    __m512i even = load_channel(type, w, k);
    __m512i odd = k + 1 < count ? load_channel(type, w, k + 1) : _mm512_setzero_si512();
    out[0] = _mm512_unpacklo_epi16(even, odd);
    out[1] = _mm512_unpackhi_epi16(even, odd);
}

/* y[32] += part * scale for one row of one panel; `part` is in the unpacked order. `first`: y is
 * set instead. */
ALWAYS_INLINE void add_block(float *y, const __m512 part[2], float scale, bool first) {
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    __m512 scales = _mm512_set1_ps(scale);
    __m512 ordered[2] = {_mm512_permutex2var_ps(part[0], low, part[1]),
                         _mm512_permutex2var_ps(part[0], high, part[1])};
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
        __m512 sum = first ? _mm512_setzero_ps() : _mm512_loadu_ps(y + v * 16);
        _mm512_storeu_ps(y + v * 16, _mm512_fmadd_ps(ordered[v], scales, sum));
    }
}

/* Multiplies a tile of `rows` rows and `panels` panels, which are constants to the compiler: it
 * unrolls the loops and keeps `part` in registers. */
ALWAYS_INLINE void tile(enum weight_type type, bool decoded, int rows, int panels,
                        const struct matmul_tile *t) {
    __m512 part[ROWS][2 * TILE_PANELS_MAX];
    const char *x = t->x, *w = t->w;
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < 2 * panels; v++)
            part[r][v] = _mm512_setzero_ps();
    for (uint32_t k = 0; k < t->count; k += 2) {
        __m512i weights[2 * TILE_PANELS_MAX];
#pragma GCC unroll 2
        for (int p = 0; p < panels; p++) {
            const char *panel = w + p * t->panel_bytes;
            load_channel_pair(type, decoded, panel, k, t->count, weights + 2 * p);
            if (!decoded)
                _mm_prefetch(panel + k * packed_channel_bytes(type) + PREFETCH_BYTES, _MM_HINT_T0);
        }
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            int32_t pair;
            /* pack_x leaves the second half of each row's room unused */
            memcpy(&pair, x + r * QUANT_GROUP * sizeof(float) + k * 2, sizeof pair);
            __m512i factor = _mm512_set1_epi32(pair);
#pragma GCC unroll 4
            for (int v = 0; v < 2 * panels; v++)
                part[r][v] = dot_pairs(part[r][v], factor, weights[v]);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int p = 0; p < panels; p++)
            add_block(t->y + r * t->y_stride + p * MATMUL_PANEL, part[r] + 2 * p, t->s[p][r],
                      t->first);
}

ALWAYS_INLINE void tile_of_type(enum weight_type type, bool decoded, const struct matmul_tile *t) {
    /* clang-format off */
    switch (t->panels == 2 ? t->rows + 100 : t->rows) { /* two panels: up to PAIR_ROWS rows */
    case 1: tile(type, decoded, 1, 1, t); break;
    case 2: tile(type, decoded, 2, 1, t); break;
    case 3: tile(type, decoded, 3, 1, t); break;
    case 4: tile(type, decoded, 4, 1, t); break;
    case 5: tile(type, decoded, 5, 1, t); break;
    case 6: tile(type, decoded, 6, 1, t); break;
    case 7: tile(type, decoded, 7, 1, t); break;
    case 8: tile(type, decoded, 8, 1, t); break;
    case 9: tile(type, decoded, 9, 1, t); break;
    case 10: tile(type, decoded, 10, 1, t); break;
    case 11: tile(type, decoded, 11, 1, t); break;
    case 12: tile(type, decoded, 12, 1, t); break;
    case 101: tile(type, decoded, 1, 2, t); break;
    case 102: tile(type, decoded, 2, 2, t); break;
    case 103: tile(type, decoded, 3, 2, t); break;
    case 104: tile(type, decoded, 4, 2, t); break;
    default: __builtin_unreachable();
    }
    /* clang-format on */
}

static void run_tile(const struct matmul_tile *t) {
    if (t->decoded)
        tile_of_type(WEIGHT_BF16, true, t);
    else if (t->type == WEIGHT_FP8)
        tile_of_type(WEIGHT_FP8, false, t);
    else
        tile_of_type(WEIGHT_BF16, false, t);
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

/* A panel's `count` channels as load_channel_pair makes them: 128 bytes for each pair. */
static void decode(void *out, enum weight_type type, const void *w, uint32_t count) {
    for (uint32_t k = 0; k < count; k += 2) {
        __m512i pairs[2];
        if (type == WEIGHT_FP8)
            load_channel_pair(WEIGHT_FP8, false, w, k, count, pairs);
        else
            load_channel_pair(WEIGHT_BF16, false, w, k, count, pairs);
        _mm512_storeu_si512((char *)out + (size_t)k * 64, pairs[0]);
        _mm512_storeu_si512((char *)out + (size_t)k * 64 + 64, pairs[1]);
    }
}

void matmul_avx512bf16_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    static const struct matmul_leaf leaf = {
        .tile_rows = ROWS,
        .direct_rows = DIRECT_ROWS,
        .pair_rows = PAIR_ROWS,
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
