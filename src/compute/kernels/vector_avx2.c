/* SPDX-License-Identifier: Apache-2.0
 * Vector kernels with AVX2, FMA and F16C: vector_c.c, 8 elements at a time; reductions keep their
 * 16 lanes in two registers. Tails go through masked loads and stores: what lies behind a buffer is
 * neither read nor written.
 */
#include "compute/kernels/tables.h"

#include <immintrin.h>
#include <math.h>

#include "compute/kernels/vector_any.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The elements [i, i + 8) that exist, none when i >= n. */
ALWAYS_INLINE __m256i mask_from(uint32_t i, uint32_t n) {
    static const int32_t edge[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    uint32_t count = i >= n ? 0 : n - i < 8 ? n - i : 8;
    return _mm256_loadu_si256((const __m256i *)(const void *)(edge + 8 - count));
}

ALWAYS_INLINE __m128 upper_half(__m256 v) {
    return _mm256_extractf128_ps(v, 1);
}

static float lanes_sum(__m256 low, __m256 high) {
    __m256 eight = _mm256_add_ps(low, high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), upper_half(eight));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static float lanes_maximum(__m256 low, __m256 high) {
    __m256 eight = _mm256_max_ps(high, low);
    __m128 four = _mm_max_ps(upper_half(eight), _mm256_castps256_ps128(eight));
    __m128 two = _mm_max_ps(_mm_movehl_ps(four, four), four);
    return _mm_cvtss_f32(_mm_max_ss(_mm_movehdup_ps(two), two));
}

ALWAYS_INLINE __m256 absolute(__m256 v) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

ALWAYS_INLINE __m256 two_to(__m256i power) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(power, _mm256_set1_epi32(127)), 23));
}

ALWAYS_INLINE __m256 exponential(__m256 x) {
    __m256 rounder = _mm256_set1_ps(EXP_ROUNDER);
    __m256 n = _mm256_sub_ps(_mm256_fmadd_ps(x, _mm256_set1_ps(EXP_LOG2E), rounder), rounder);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_HIGH), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_LOW), r);
    __m256 p = _mm256_set1_ps(EXP_C7);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C6));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i power = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(power, 1);
    p = _mm256_mul_ps(_mm256_mul_ps(p, two_to(half)), two_to(_mm256_sub_epi32(power, half)));
    __m256 high = _mm256_cmp_ps(x, _mm256_set1_ps(EXP_HIGHEST), _CMP_GT_OQ);
    __m256 low = _mm256_cmp_ps(x, _mm256_set1_ps(EXP_LOWEST), _CMP_LT_OQ);
    p = _mm256_blendv_ps(p, _mm256_set1_ps(INFINITY), high);
    p = _mm256_blendv_ps(p, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_andnot_ps(low, p);
}

static void rmsnorm(float *y, const float *x, const float *weight, uint32_t n, float epsilon) {
    __m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (uint32_t i = 0; i < n; i += 16)
        for (uint32_t v = 0; v < 2; v++) {
            __m256i mask = mask_from(i + 8 * v, n);
            __m256 value = _mm256_maskload_ps(x + i + 8 * v, mask);
            lanes[v] = _mm256_fmadd_ps(value, value, lanes[v]);
        }
    float mean = lanes_sum(lanes[0], lanes[1]) / (float)n;
    __m256 factor = _mm256_set1_ps(1.0f / sqrtf(mean + epsilon));
    for (uint32_t i = 0; i < n; i += 8) {
        __m256i mask = mask_from(i, n);
        __m256 v = _mm256_mul_ps(_mm256_maskload_ps(x + i, mask), factor);
        v = _mm256_mul_ps(v, _mm256_maskload_ps(weight + i, mask));
        _mm256_maskstore_ps(y + i, mask, v);
    }
}

static void silu_multiply(float *y, const float *gate, const float *up, uint32_t n) {
    __m256 one = _mm256_set1_ps(1.0f), sign = _mm256_set1_ps(-0.0f);
    for (uint32_t i = 0; i < n; i += 8) {
        __m256i mask = mask_from(i, n);
        __m256 z = _mm256_maskload_ps(gate + i, mask);
        __m256 v = _mm256_add_ps(one, exponential(_mm256_xor_ps(z, sign)));
        v = _mm256_mul_ps(_mm256_div_ps(z, v), _mm256_maskload_ps(up + i, mask));
        _mm256_maskstore_ps(y + i, mask, v);
    }
}

static void add_scaled(float *y, const float *x, float a, uint32_t n) {
    __m256 factor = _mm256_set1_ps(a);
    for (uint32_t i = 0; i < n; i += 8) {
        __m256i mask = mask_from(i, n);
        __m256 v = _mm256_maskload_ps(x + i, mask);
        v = _mm256_fmadd_ps(factor, v, _mm256_maskload_ps(y + i, mask));
        _mm256_maskstore_ps(y + i, mask, v);
    }
}

static void scale(float *y, float a, uint32_t n) {
    __m256 factor = _mm256_set1_ps(a);
    for (uint32_t i = 0; i < n; i += 8) {
        __m256i mask = mask_from(i, n);
        _mm256_maskstore_ps(y + i, mask, _mm256_mul_ps(_mm256_maskload_ps(y + i, mask), factor));
    }
}

static float maximum(const float *x, uint32_t n) {
    __m256 lowest = _mm256_set1_ps(-INFINITY);
    __m256 lanes[2] = {lowest, lowest};
    for (uint32_t i = 0; i < n; i += 16)
        for (uint32_t v = 0; v < 2; v++) {
            __m256i mask = mask_from(i + 8 * v, n);
            __m256 value = _mm256_maskload_ps(x + i + 8 * v, mask);
            value = _mm256_blendv_ps(lowest, value, _mm256_castsi256_ps(mask));
            lanes[v] = _mm256_max_ps(value, lanes[v]);
        }
    return lanes_maximum(lanes[0], lanes[1]);
}

static float exp_sum(float *y, const float *x, float a, float b, uint32_t n) {
    __m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    __m256 factor = _mm256_set1_ps(a), offset = _mm256_set1_ps(-b);
    for (uint32_t i = 0; i < n; i += 16)
        for (uint32_t v = 0; v < 2; v++) {
            __m256i mask = mask_from(i + 8 * v, n);
            __m256 value = _mm256_maskload_ps(x + i + 8 * v, mask);
            value = exponential(_mm256_fmadd_ps(value, factor, offset));
            _mm256_maskstore_ps(y + i + 8 * v, mask, value);
            value = _mm256_and_ps(value, _mm256_castsi256_ps(mask));
            lanes[v] = _mm256_add_ps(lanes[v], value);
        }
    return lanes_sum(lanes[0], lanes[1]);
}

/* The BF16 value of each float: base/number.h. */
ALWAYS_INLINE __m256i bf16_value_bits(__m256 v) {
    __m256i bits = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    rounded = _mm256_blendv_epi8(rounded, quiet, nan);
    return _mm256_and_si256(rounded, _mm256_set1_epi32((int)0xFFFF0000));
}

static void round_bf16(float *y, const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 8) {
        __m256i mask = mask_from(i, n);
        __m256i bits = bf16_value_bits(_mm256_maskload_ps(x + i, mask));
        _mm256_maskstore_ps(y + i, mask, _mm256_castsi256_ps(bits));
    }
}

static void to_bf16(uint16_t *y, const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 8) {
        __m256i bits = bf16_value_bits(_mm256_maskload_ps(x + i, mask_from(i, n)));
        bits = _mm256_srli_epi32(bits, 16);
        __m128i packed =
            _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
        if (n - i >= 8)
            _mm_storeu_si128((__m128i *)(void *)(y + i), packed);
        else
            memcpy(y + i, &packed, (n - i) * sizeof *y);
    }
}

/* Eight at x, or as many as there are. */
ALWAYS_INLINE __m256 load_bf16(const uint16_t *x, uint32_t count) {
    __m128i bits = _mm_setzero_si128();
    if (count >= 8)
        bits = _mm_loadu_si128((const __m128i *)(const void *)x);
    else
        memcpy(&bits, x, count * sizeof *x);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

static void from_bf16(float *y, const uint16_t *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i += 8)
        _mm256_maskstore_ps(y + i, mask_from(i, n), load_bf16(x + i, n - i));
}

/* Eight of add_sum_bf16's sums from x[k] + i on, or as many as are left. */
ALWAYS_INLINE __m256 sum_rows(const uint16_t *const *x, const float *a, uint32_t count, uint32_t i,
                              uint32_t left) {
    __m256 sum = _mm256_setzero_ps();
    for (uint32_t k = 0; k < count; k++)
        sum = _mm256_fmadd_ps(_mm256_set1_ps(a[k]), load_bf16(x[k] + i, left), sum);
    return _mm256_castsi256_ps(bf16_value_bits(sum));
}

static void add_sum_bf16(float *y, const uint16_t *const *x, const float *a, uint32_t count,
                         uint32_t n) {
    uint32_t i = 0;
    for (; n - i >= 8; i += 8)
        _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(y + i), sum_rows(x, a, count, i, 8)));
    if (i == n) return;
    __m256i mask = mask_from(i, n);
    __m256 sum = sum_rows(x, a, count, i, n - i);
    _mm256_maskstore_ps(y + i, mask, _mm256_add_ps(_mm256_maskload_ps(y + i, mask), sum));
}

/* The nearest E4M3 value, ties to even, beyond 448 saturated: base/number.h. */
ALWAYS_INLINE __m256 round_e4m3(__m256 v) {
    __m256 sign = _mm256_and_ps(v, _mm256_set1_ps(-0.0f));
    __m256 magnitude = _mm256_min_ps(absolute(v), _mm256_set1_ps(E4M3_MAX));
    __m256 rounder = _mm256_set1_ps(E4M3_SUBNORMAL_ROUNDER);
    __m256 small = _mm256_sub_ps(_mm256_add_ps(magnitude, rounder), rounder);
    __m256i bits = _mm256_castps_si256(magnitude);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 20), _mm256_set1_epi32(1));
    bits = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFFF)), odd);
    bits = _mm256_and_si256(bits, _mm256_set1_epi32((int)0xFFF00000));
    __m256 is_small = _mm256_cmp_ps(magnitude, _mm256_set1_ps(E4M3_NORMAL_MIN), _CMP_LT_OQ);
    __m256 result = _mm256_blendv_ps(_mm256_castsi256_ps(bits), small, is_small);
    result = _mm256_or_ps(result, sign);
    return _mm256_blendv_ps(result, v, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

static float group_scale(const float *x, uint32_t n, bool power_of_two) {
    __m256 lanes = _mm256_set1_ps(QUANT_FLOOR);
    for (uint32_t i = 0; i < n; i += 8)
        lanes = _mm256_max_ps(absolute(_mm256_maskload_ps(x + i, mask_from(i, n))), lanes);
    float s = lanes_maximum(lanes, lanes) / E4M3_MAX;
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
        for (uint32_t i = first; i < end; i += 8) {
            __m256i mask = mask_from(i, end);
            __m256 v = _mm256_div_ps(_mm256_maskload_ps(x + i, mask), _mm256_set1_ps(s));
            _mm256_maskstore_ps(codes + i, mask, round_e4m3(v));
        }
    }
}

/* Turns 8 rows of 8 floats into columns. */
ALWAYS_INLINE void transpose_8(__m256 *v) {
    __m256 t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) { /* pairs of rows, element by element */
        t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) { /* fours of rows: v[i + j] has columns j and j + 4 */
        v[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        v[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
        v[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        v[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        t[j] = _mm256_permute2f128_ps(v[j], v[4 + j], 0x20);
        t[4 + j] = _mm256_permute2f128_ps(v[j], v[4 + j], 0x31);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        v[i] = t[i];
}

static void transpose(float *y, size_t y_stride, const float *x, size_t x_stride, uint32_t rows,
                      uint32_t cols) {
    for (uint32_t r = 0; r < rows; r += 8) {
        __m256i row_mask = mask_from(r, rows);
        for (uint32_t c = 0; c < cols; c += 8) {
            __m256 v[8];
#pragma GCC unroll 8
            for (uint32_t i = 0; i < 8; i++) {
                uint32_t count = r + i < rows ? cols - c : 0;
                size_t at = (r + i < rows ? r + i : r) * x_stride + c;
                v[i] = _mm256_maskload_ps(x + at, mask_from(0, count));
            }
            transpose_8(v);
#pragma GCC unroll 8
            for (uint32_t i = 0; i < 8; i++)
                if (c + i < cols) _mm256_maskstore_ps(y + (c + i) * y_stride + r, row_mask, v[i]);
        }
    }
}

const struct kernels kernels_table_avx2 = {
    .level = KERNEL_LEVEL_AVX2,
    .name = "avx2",
    .numerics = "fma1",
    .matmul = matmul_avx2_run,
    .gemm = gemm_avx2_run,
    VECTOR_KERNELS,
};
