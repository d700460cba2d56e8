/* SPDX-License-Identifier: Apache-2.0
 * Vector kernels with AVX-512, and the tables of the levels that have it.
 */
#include "compute/kernels/tables.h"

#include "compute/kernels/lanes_avx512.h"

#include "compute/kernels/vector_body.h"

/* 16 values of channels k and k + 1, or of two rows, side by side. */
ALWAYS_INLINE void store_pairs(uint16_t *pairs, lanes even, lanes odd, uint32_t count) {
    lanes_bits both = bf16_bits(even) | (lanes_bits)round_to_bf16(odd);
    store((float *)(void *)pairs, (lanes)both, count);
}

/* 16 codes of E4M3 times a scale. */
ALWAYS_INLINE lanes scaled_codes(const uint8_t *codes, lanes scale) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)codes);
    lanes_bits bits = (lanes_bits)_mm512_cvtepi8_epi32(bytes);
    lanes value = (lanes)((bits & 0x80000000u) | (bits << 20 & 0x07F00000u));
    return value * 0x1p120f * scale;
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
            lanes scale = lanes_all(scales[channel / QUANT_GROUP]);
            store_pairs(pairs, scaled_codes(codes + out, scale),
                        scaled_codes(codes + MATMUL_PANEL + out, scale), LANES);
        }
}

static void bf16_pair_rows(uint16_t *pairs, const float *x, size_t x_stride, uint32_t rows,
                           uint32_t cols) {
    for (uint32_t r = 0; r < round_up(rows, BF16_PAIR_ROWS);
         r += 2, pairs += 2 * cols, x += 2 * x_stride)
        EACH(LANES, cols,
             store_pairs(pairs + (size_t)2 * i, load(x + i, r < rows ? count : 0, 0),
                         load(x + x_stride + i, r + 1 < rows ? count : 0, 0), count));
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
