/* SPDX-License-Identifier: Apache-2.0
 * Vector kernels with AVX-512: vector_c.c, 16 elements at a time, and the tables of both AVX-512
 * levels. Tails are masked: what lies behind a buffer is neither read nor written.
 */
#include "compute/kernels/tables.h"

#include <immintrin.h>
#include <math.h>

#include "compute/kernels/vector_any.h"
#include "compute/kernels/vector_avx512.h"

static void rmsnorm(float *y, const float *x, const float *weight, uint32_t n, float epsilon) {
    __m512 lanes = _mm512_setzero_ps();
    for (uint32_t i = 0; i < n; i += 16) {
        __m512 v = _mm512_maskz_loadu_ps(mask_from(i, n), x + i);
        lanes = _mm512_fmadd_ps(v, v, lanes);
    }
    __m512 factor = _mm512_set1_ps(1.0f / sqrtf(lanes_sum(lanes) / (float)n + epsilon));
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_from(i, n);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), factor);
        v = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, weight + i));
        _mm512_mask_storeu_ps(y + i, mask, v);
    }
}

static void silu_multiply(float *y, const float *gate, const float *up, uint32_t n) {
    __m512 one = _mm512_set1_ps(1.0f), sign = _mm512_set1_ps(-0.0f);
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_from(i, n);
        __m512 z = _mm512_maskz_loadu_ps(mask, gate + i);
        __m512 v = _mm512_add_ps(one, exponential(_mm512_xor_ps(z, sign)));
        v = _mm512_mul_ps(_mm512_div_ps(z, v), _mm512_maskz_loadu_ps(mask, up + i));
        _mm512_mask_storeu_ps(y + i, mask, v);
    }
}

static void add_scaled(float *y, const float *x, float a, uint32_t n) {
    __m512 factor = _mm512_set1_ps(a);
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_from(i, n);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        v = _mm512_fmadd_ps(factor, v, _mm512_maskz_loadu_ps(mask, y + i));
        _mm512_mask_storeu_ps(y + i, mask, v);
    }
}

static void scale(float *y, float a, uint32_t n) {
    __m512 factor = _mm512_set1_ps(a);
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_from(i, n);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, y + i), factor);
        _mm512_mask_storeu_ps(y + i, mask, v);
    }
}

static float maximum(const float *x, uint32_t n) {
    __m512 lanes = _mm512_set1_ps(-INFINITY);
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_from(i, n);
        lanes = _mm512_mask_max_ps(lanes, mask, _mm512_maskz_loadu_ps(mask, x + i), lanes);
    }
    return lanes_maximum(lanes);
}

static float exp_sum(float *y, const float *x, float a, float b, uint32_t n) {
    __m512 lanes = _mm512_setzero_ps(), factor = _mm512_set1_ps(a), offset = _mm512_set1_ps(-b);
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_from(i, n);
        __m512 v = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, x + i), factor, offset);
        v = exponential(v);
        _mm512_mask_storeu_ps(y + i, mask, v);
        lanes = _mm512_mask_add_ps(lanes, mask, lanes, v);
    }
    return lanes_sum(lanes);
}

/* 16 values of channels k and k + 1, or of two rows, side by side. */
ALWAYS_INLINE void store_pairs(uint16_t *pairs, __m512 even, __m512 odd, __mmask16 mask) {
    __m512i both = _mm512_or_si512(bf16_bits(even), _mm512_slli_epi32(bf16_bits(odd), 16));
    _mm512_mask_storeu_epi32(pairs, mask, both);
}

/* 16 codes of E4M3 times a scale. */
ALWAYS_INLINE __m512 scaled_codes(const uint8_t *codes, __m512 scale) {
    __m512i bits = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)codes));
    __m512i sign = _mm512_and_si512(bits, _mm512_set1_epi32(INT32_MIN));
    __m512i rest = _mm512_and_si512(_mm512_slli_epi32(bits, 20), _mm512_set1_epi32(0x07F00000));
    __m512 value = _mm512_castsi512_ps(_mm512_or_si512(sign, rest));
    return _mm512_mul_ps(_mm512_mul_ps(value, _mm512_set1_ps(0x1p120f)), scale);
}

static void bf16_panel(uint16_t *pairs, const struct packed_matrix *weights, uint32_t panel) {
    if (weights->type != WEIGHT_FP8) {
        vector_c_bf16_panel_c(pairs, weights, panel);
        return;
    }
    const uint8_t *codes =
        (const uint8_t *)weights->data + (size_t)panel * weights->cols * MATMUL_PANEL;
    const float *scales = weights->scales + (size_t)(panel * MATMUL_PANEL / QUANT_GROUP) *
                                                divide_up(weights->cols, QUANT_GROUP);
    for (uint32_t channel = 0; channel < weights->cols; channel += 2, codes += 2 * MATMUL_PANEL)
        for (uint32_t out = 0; out < MATMUL_PANEL; out += 16, pairs += 32) {
            __m512 scale = _mm512_set1_ps(scales[channel / QUANT_GROUP]);
            store_pairs(pairs, scaled_codes(codes + out, scale),
                        scaled_codes(codes + MATMUL_PANEL + out, scale), 0xFFFF);
        }
}

static void bf16_pair_rows(uint16_t *pairs, const float *x, size_t x_stride, uint32_t rows,
                           uint32_t cols) {
    for (uint32_t r = 0; r < round_up(rows, BF16_PAIR_ROWS);
         r += 2, pairs += 2 * cols, x += 2 * x_stride)
        for (uint32_t c = 0; c < cols; c += 16) {
            __mmask16 mask = mask_from(c, cols);
            __m512 even = _mm512_maskz_loadu_ps(r < rows ? mask : 0, x + c);
            __m512 odd = _mm512_maskz_loadu_ps(r + 1 < rows ? mask : 0, x + x_stride + c);
            store_pairs(pairs + 2 * c, even, odd, mask);
        }
}

static void round_bf16(float *y, const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_from(i, n);
        __m512i bits = bf16_bits(_mm512_maskz_loadu_ps(mask, x + i));
        _mm512_mask_storeu_ps(y + i, mask, _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16)));
    }
}

static void to_bf16(uint16_t *y, const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_from(i, n);
        __m512i bits = bf16_bits(_mm512_maskz_loadu_ps(mask, x + i));
        _mm256_mask_storeu_epi16(y + i, mask, _mm512_cvtepi32_epi16(bits));
    }
}

ALWAYS_INLINE __m512 load_bf16(__mmask16 mask, const uint16_t *x) {
    __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

static void from_bf16(float *y, const uint16_t *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_from(i, n);
        _mm512_mask_storeu_ps(y + i, mask, load_bf16(mask, x + i));
    }
}

static void add_sum_bf16(float *y, const uint16_t *const *x, const float *a, uint32_t count,
                         uint32_t n) {
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = mask_from(i, n);
        __m512 sum = _mm512_setzero_ps();
        for (uint32_t k = 0; k < count; k++)
            sum = _mm512_fmadd_ps(_mm512_set1_ps(a[k]), load_bf16(mask, x[k] + i), sum);
        sum = _mm512_castsi512_ps(_mm512_slli_epi32(bf16_bits(sum), 16));
        _mm512_mask_storeu_ps(y + i, mask, _mm512_add_ps(_mm512_maskz_loadu_ps(mask, y + i), sum));
    }
}

/* The nearest E4M3 value, ties to even, beyond 448 saturated: base/number.h. */
ALWAYS_INLINE __m512 round_e4m3(__m512 v) {
    __m512i sign = _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(INT32_MIN));
    __m512 magnitude = _mm512_min_ps(_mm512_abs_ps(v), _mm512_set1_ps(E4M3_MAX));
    __m512 rounder = _mm512_set1_ps(E4M3_SUBNORMAL_ROUNDER);
    __m512 small = _mm512_sub_ps(_mm512_add_ps(magnitude, rounder), rounder);
    __m512i bits = _mm512_castps_si512(magnitude);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 20), _mm512_set1_epi32(1));
    bits = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFFF)), odd);
    bits = _mm512_and_si512(bits, _mm512_set1_epi32((int)0xFFF00000));
    __mmask16 is_small = _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(E4M3_NORMAL_MIN), _CMP_LT_OQ);
    __m512 result = _mm512_mask_mov_ps(_mm512_castsi512_ps(bits), is_small, small);
    result = _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(result), sign));
    return _mm512_mask_mov_ps(result, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v);
}

static float group_scale(const float *x, uint32_t n, bool power_of_two) {
    __m512 lanes = _mm512_set1_ps(QUANT_FLOOR);
    for (uint32_t i = 0; i < n; i += 16)
        lanes = _mm512_max_ps(_mm512_abs_ps(_mm512_maskz_loadu_ps(mask_from(i, n), x + i)), lanes);
    float s = lanes_maximum(lanes) / E4M3_MAX;
    if (!power_of_two) return s;
    __m128i bits = _mm_add_epi32(_mm_castps_si128(_mm_set_ss(s)), _mm_set1_epi32(0x7FFFFF));
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_and_si128(bits, _mm_set1_epi32(0x7F800000))));
}

static void quantize_e4m3(float *codes, float *scales, const float *x, uint32_t n,
                          bool scale_power_of_two) {
    for (uint32_t first = 0; first < n; first += QUANT_GROUP) {
        uint32_t end = n - first < QUANT_GROUP ? n : first + QUANT_GROUP;
        float s = group_scale(x + first, end - first, scale_power_of_two);
        scales[first / QUANT_GROUP] = s;
        for (uint32_t i = first; i < end; i += 16) {
            __mmask16 mask = mask_from(i, end);
            __m512 v = _mm512_div_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_set1_ps(s));
            _mm512_mask_storeu_ps(codes + i, mask, round_e4m3(v));
        }
    }
}

/* Turns 16 rows of 16 floats into columns. */
ALWAYS_INLINE void transpose_16(__m512 *v) {
    __m512 t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) { /* pairs of rows, element by element */
        t[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16;
         i += 4) { /* fours of rows: v[i + j] has columns j, j + 4, j + 8, j + 12 */
        v[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
        v[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xEE);
        v[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        v[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) { /* quarters of 128 bits: a 4 x 4 transpose of them */
        __m512 low_even = _mm512_shuffle_f32x4(v[j], v[4 + j], 0x88);
        __m512 low_odd = _mm512_shuffle_f32x4(v[j], v[4 + j], 0xDD);
        __m512 high_even = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0x88);
        __m512 high_odd = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0xDD);
        t[j] = _mm512_shuffle_f32x4(low_even, high_even, 0x88);
        t[4 + j] = _mm512_shuffle_f32x4(low_odd, high_odd, 0x88);
        t[8 + j] = _mm512_shuffle_f32x4(low_even, high_even, 0xDD);
        t[12 + j] = _mm512_shuffle_f32x4(low_odd, high_odd, 0xDD);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        v[i] = t[i];
}

static void transpose(float *y, size_t y_stride, const float *x, size_t x_stride, uint32_t rows,
                      uint32_t cols) {
    for (uint32_t r = 0; r < rows; r += 16) {
        __mmask16 row_mask = mask_from(r, rows);
        for (uint32_t c = 0; c < cols; c += 16) {
            __mmask16 col_mask = mask_from(c, cols);
            __m512 v[16];
#pragma GCC unroll 16
            for (uint32_t i = 0; i < 16; i++) {
                __mmask16 mask = r + i < rows ? col_mask : 0;
                size_t at = (r + i < rows ? r + i : r) * x_stride + c;
                v[i] = _mm512_maskz_loadu_ps(mask, x + at);
            }
            transpose_16(v);
#pragma GCC unroll 16
            for (uint32_t i = 0; i < 16; i++)
                if (c + i < cols) _mm512_mask_storeu_ps(y + (c + i) * y_stride + r, row_mask, v[i]);
        }
    }
}

const struct kernels kernels_table_avx512 = {
    .level = KERNEL_LEVEL_AVX512,
    .name = "avx512",
    .numerics = "fma1",
    .matmul = matmul_avx512_run,
    .gemm = gemm_avx512_run,
    VECTOR_KERNELS,
};

const struct kernels kernels_table_avx512bf16 = {
    .level = KERNEL_LEVEL_AVX512BF16,
    .name = "avx512bf16",
    .numerics = "bf16dot3",
    .matmul = matmul_avx512bf16_run,
    .gemm_bf16 = gemm_avx512bf16_run,
    .few_columns = BF16_FOURS,
    .core_blocks = 1,
    .bf16_panel = bf16_panel,
    .bf16_pair_rows = bf16_pair_rows,
    .softmax_bf16 = vector_avx512bf16_softmax_avx512bf16_run,
    .gemm = gemm_avx512_run,
    VECTOR_KERNELS,
};

const struct kernels kernels_table_amx = {
    .level = KERNEL_LEVEL_AMX,
    .name = "amx",
    .numerics = "amx3",
    .matmul = matmul_amx_run,
    .gemm_bf16 = gemm_amx_run,
    .few_columns = BF16_PAIRS,
    .core_blocks = 2,
    .bf16_panel = bf16_panel,
    .bf16_pair_rows = bf16_pair_rows,
    .softmax_bf16 = vector_avx512bf16_softmax_avx512bf16_run,
    .gemm = gemm_avx512_run,
    VECTOR_KERNELS,
};
