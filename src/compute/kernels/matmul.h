/* SPDX-License-Identifier: Apache-2.0
 * Matrix products, the first kernel family. One arithmetic for every weight type and CPU level:
 *
 *   y[m][n]: acc = fma(part, s, acc) over the blocks b of 128 input channels, ascending, from +0
 *     part = fma(x[m][k], w[n][k], part) over the channels k of the block, ascending, from +0
 *     s    = x_scales[m][b] * w_scale[n / 128][b]; a factor that is absent is 1; without both,
 *            acc += part
 *
 * Codes of four bits (INT4, MXFP4) have a scale for each output and group of 32 or 128 channels.
 * Then a block is a group, and w_scale[n][b] its scale. MXFP4's codes enter the chain as twice
 * their value, an integer, and s is x_scales[m][b] / 2 * w_scale[n][b].
 *
 * Types of blocks (GGUF's) have the products of F32 weights of the same values, and a value is as
 * weight_super.h has it.
 *
 * FP8 codes enter the chain as their value times 2^-8 (what a half-float of the same bits is worth)
 * and x as x times 2^8, so a step is fma(x * 2^8, w * 2^-8, part): the same as fma(x, w, part)
 * unless |x| reaches 2^120. The NaN codes 0x7F and 0xFF would count as 480 and -480: loaders refuse
 * them.
 *
 * INT8 inputs (`x_int8`) have a scale for each row and 32 channels, and multiply codes of four bits
 * alone. Then a block is 32 channels, its part a sum of integers, which is exact in every order,
 * and s = (x_scales[m][b] * unit) * w_scale[n][group of b], unit being 1, or 1/2 for MXFP4. So all
 * levels agree bit for bit, whatever their instructions.
 *
 * An output element never depends on m, on its neighbours, on threads or on tile shapes: this is
 * the other half of batch invariance, and it makes the C twin, AVX2, AVX-512 and NEON agree bit for
 * bit.
 * AVX-512-BF16 multiplies pairs of channels (VDPBF16PS, ascending pairs, an odd last channel is
 * paired with zero) when x is representable in BF16 and the weights are not F32; it is a numerics
 * class of its own. So are NEON-BF16, as BFDOT rounds differently, and AMX, which sums 32
 * channels at a time (struct gemm_bf16). Where x has no scales, AMX's class rounds weights times
 * their scales to BF16, as DeepSeek's weight_dequant does (inference/kernel.py), and y is one sum
 * over all channels. It multiplies codes of four bits as AVX-512-BF16 does, and NEON-BF16 does as
 * NEON.
 *
 * Activations are float arrays, or BF16 values in blocks of channels (`x_blocks`), which a level
 * may read as they lie. Floats may be BF16-representable (`x_is_bf16`), or E4M3 codes' values with
 * x_scales: a level may then convert them without loss.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "compute/kernels/weight_super.h"

/* INT4: a code c is worth c - 8, in groups of 32 or 128 channels. MXFP4: E2M1 codes (sign, two bits
 * of exponent, one of fraction), in groups of 32; OCP Microscaling Formats v1.0, 5.3.3. */
enum weight_type {
    WEIGHT_FP8,
    WEIGHT_BF16,
    WEIGHT_F32,
    WEIGHT_INT4_32,
    WEIGHT_INT4_128,
    WEIGHT_MXFP4,
    WEIGHT_Q8_0, /* from here on: types of blocks, see weight_type_blocks; also ggml's Q5_0 */
    WEIGHT_Q4_0,
    WEIGHT_Q4_K,
    WEIGHT_Q5_K,
    WEIGHT_Q6_K,
    WEIGHT_TYPE_COUNT
};

/* The make-up of a super-block (weight_super.h) of a type of blocks. */
struct weight_blocks {
    uint32_t code_bits; /* 4 or 8 */
    uint32_t channels;  /* of a super-block */
    uint32_t group;     /* channels with the same scale */
    bool scaled;        /* groups have scales; else d alone scales */
    bool has_mins;
};

/* NULL for other types. */
static inline const struct weight_blocks *weight_type_blocks(enum weight_type type) {
    static const struct weight_blocks rows[] = {
        {8, 32, 32, false, false}, {4, 32, 32, false, false}, {4, 256, 32, true, true},
        {8, 256, 32, true, true},  {8, 256, 16, true, false},
    };
    return type >= WEIGHT_Q8_0 && type < WEIGHT_TYPE_COUNT ? &rows[type - WEIGHT_Q8_0] : NULL;
}

/* True for F32 and what has its products. */
static inline bool weight_type_is_float(enum weight_type type) {
    return type == WEIGHT_F32 || type >= WEIGHT_Q8_0;
}

/* Channels that share one of an output's scales; 0: a type without such groups. Types with groups
 * have codes of four bits. */
static inline uint32_t weight_type_group(enum weight_type type) {
    if (type == WEIGHT_INT4_32 || type == WEIGHT_MXFP4) return 32;
    return type == WEIGHT_INT4_128 ? 128 : 0;
}

/* The value of a code of four bits, without its scale. */
static inline float weight_type_value(enum weight_type type, uint32_t code) {
    static const float e2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    if (type != WEIGHT_MXFP4) return (float)code - 8;
    return code < 8 ? e2m1[code] : -e2m1[code - 8];
}

/* A code's value is the integer of the products' chain times this. */
static inline float weight_type_unit(enum weight_type type) {
    return type == WEIGHT_MXFP4 ? 0.5f : 1;
}

/* Types that all levels with BF16 multiply as pairs of channels. */
static inline bool weight_type_pairs(enum weight_type type) {
    return type == WEIGHT_FP8 || type == WEIGHT_BF16;
}

/* Bytes of `count` adjacent values. */
static inline size_t weight_type_bytes(enum weight_type type, size_t count) {
    size_t bits = type == WEIGHT_FP8 ? 8 : type == WEIGHT_BF16 ? 16 : 32;
    if (weight_type_group(type)) bits = 4;
    if (weight_type_blocks(type)) bits = weight_type_blocks(type)->code_bits;
    return divide_up(count * bits, 8);
}

#define INT8_GROUP 32 /* channels that share a scale of an INT8 input */

/* A packed weight matrix W[rows][cols]; rows are outputs. It consists of panels of MATMUL_PANEL
 * rows, each laid out [cols][MATMUL_PANEL]: for every input channel the 32 outputs side by side.
 * The last panel is filled up with zeros. FP8 scales are [ceil(rows / 128)][ceil(cols / 128)],
 * factors of the codes' values (the checkpoint's weight_scale_inv).
 * Of codes of four bits a panel has words of 32 bits, [cols / 8][MATMUL_PANEL]: of eight channels
 * 0, 2, 4, 6, 1, 3, 5 and 7, from the lowest bits on. cols is a multiple of the group, or of the
 * super-block.
 * On a device it lies as in the checkpoint instead: row by row, `pitch` bytes apart. */
struct packed_matrix {
    enum weight_type type;
    uint32_t rows, cols;
    bool ue8m0;          /* scales of quantized inputs are powers of two */
    uint8_t input_group; /* V4: channels that share a scale of a quantized input; 0: as the type has
                          * it. Its inputs are quantized in the fp8 modes, whatever the type */
    const void *data;    /* 64-byte aligned */
    const float *scales; /* of FP8; else NULL */
    /* of types with groups, BF16: [panels][cols / group][MATMUL_PANEL]; of types of blocks
     * [panels][cols / channels of a super-block][packed_super_bytes]; else NULL */
    const uint16_t *group_scales;
    size_t pitch; /* on a device; 0: panels */
};

static inline uint32_t packed_panels(uint32_t rows) {
    return (uint32_t)divide_up(rows, MATMUL_PANEL);
}
/* Bytes of one input channel of a panel. */
static inline size_t packed_channel_bytes(enum weight_type type) {
    return weight_type_bytes(type, MATMUL_PANEL);
}
/* The scales of a panel's super-block, in order; absent ones are NULL. */
struct packed_super {
    const uint16_t *d, *d_min;   /* [MATMUL_PANEL], F16 */
    const int8_t *scales, *mins; /* [groups][MATMUL_PANEL] */
};
static inline size_t packed_super_bytes(const struct weight_blocks *blocks) {
    const size_t groups = blocks->channels / blocks->group;
    const size_t half = sizeof(uint16_t) + (blocks->scaled ? groups : 0);
    return half * MATMUL_PANEL * (blocks->has_mins ? 2 : 1);
}
static inline struct packed_super packed_super_at(const struct weight_blocks *blocks,
                                                  const void *scales) {
    const size_t groups = blocks->channels / blocks->group;
    struct packed_super super = {.d = scales};
    if (blocks->has_mins) super.d_min = super.d + MATMUL_PANEL;
    const int8_t *bytes = (const int8_t *)(super.d + MATMUL_PANEL * (blocks->has_mins ? 2 : 1));
    if (blocks->scaled) super.scales = bytes;
    if (blocks->has_mins) super.mins = bytes + groups * MATMUL_PANEL;
    return super;
}

/* Bytes of all panels, and of all scales, each rounded up to 64. */
static inline size_t packed_data_bytes(enum weight_type type, uint32_t rows, uint32_t cols) {
    return round_up((size_t)packed_panels(rows) * cols * packed_channel_bytes(type), 64);
}
static inline size_t packed_scale_bytes(enum weight_type type, uint32_t rows, uint32_t cols) {
    const uint32_t group = weight_type_group(type);
    const struct weight_blocks *blocks = weight_type_blocks(type);
    if (blocks)
        return (size_t)packed_panels(rows) * (cols / blocks->channels) * packed_super_bytes(blocks);
    if (group) return packed_data_bytes(WEIGHT_BF16, rows, cols / group);
    return type == WEIGHT_FP8 ? round_up(divide_up(rows, QUANT_GROUP) *
                                             divide_up(cols, QUANT_GROUP) * sizeof(float),
                                         64)
                              : 0;
}

/* Bytes between two rows of a matrix on a device, and of all its rows. */
static inline size_t packed_pitch(enum weight_type type, uint32_t cols) {
    return round_up(weight_type_bytes(type, cols), 16);
}

/* The lowest bit of a channel's code in its word. */
static inline uint32_t packed_code_shift(uint32_t channel) {
    return channel % 8 / 2 * 4 + channel % 2 * 16;
}

/* Packs rows [row_first, row_first + row_count) of a row-major matrix of element type `type` and
 * row stride `cols`; row_first is a multiple of MATMUL_PANEL, and `data` is the start of the whole
 * packed matrix. Plain C, any level reads it. Codes of four bits are read from words of
 * eight channels in ascending order, from the lowest bits on. */
void matmul_pack(enum weight_type type, const void *source, uint32_t rows, uint32_t cols,
                 uint32_t row_first, uint32_t row_count, void *data);

/* Packs super-block `index` of a panel's rows, of a type of blocks or MXFP4 (32 channels; d is the
 * bits of its scale as BF16). `panel` and `scales` are the panel's. */
void matmul_pack_super(enum weight_type type, const struct weight_super supers[MATMUL_PANEL],
                       uint32_t index, void *panel, void *scales);

struct matmul {
    const struct packed_matrix *weights;
    const float *x; /* [m][x_stride], 64-byte aligned rows are faster, not required */
    size_t x_stride;
    const uint16_t *x_blocks; /* instead of x, or NULL: BF16 values [cols / 128][x_block_stride], of
                               * which the first [m][128] are read; 16 channels beyond cols are 0 */
    size_t x_block_stride;    /* in values, a multiple of 128 */
    const int8_t *x_int8;     /* instead of both, or NULL: -127 to 127, matmul_int8_row */
    const float *x_scales;    /* [m][x_scale_stride] per 128 channels, or NULL; of x_int8 per 32 */
    size_t x_scale_stride;
    float *y;        /* [m][y_stride], the padding written, too */
    size_t y_stride; /* >= rows rounded up to MATMUL_PANEL */
    uint32_t m;
    bool x_is_bf16; /* every x is representable in BF16; so with x_blocks */
};

/* The 128 channels of a block of an INT8 input. They take the first half of the bytes that BF16
 * values would have in x_blocks. */
static inline const int8_t *matmul_int8_row(const struct matmul *job, size_t block, size_t row) {
    return job->x_int8 + (block * job->x_block_stride + row * QUANT_GROUP) * sizeof(uint16_t);
}

/* C[m][n] = A[m][k] B[k][n]: an fma chain over ascending k that starts from 0 or, with
 * `accumulate`, from C. Row-major, strides in values, any m, n and k. For attention's scores (A or
 * B: keys) and its values (B: values as they lie in the cache). */
struct gemm {
    const float *a;
    size_t a_stride;
    const float *b;
    size_t b_stride;
    const uint16_t *a_bf16, *b_bf16; /* one of them instead of a or b, BF16 values; else NULL */
    float *c;
    size_t c_stride;
    uint32_t m, n, k;
    bool accumulate;
};

/* How B[k][n] of a gemm_bf16 lies in memory; strides count values. */
enum bf16_layout {
    BF16_ROWS,  /* [k][n]; k may be odd, and then a row of A has one value more, which is 0 */
    BF16_PAIRS, /* [k / 2][n][2]: a column's channels 2i and 2i + 1 side by side */
    BF16_FOURS  /* [k / 4][n][4]; C is [m][n][2], a column's sum of the first two of every four
                 * channels and that of the others, so that few columns fill a vector */
};

/* C = A B as in struct gemm, of BF16 values. An accumulator takes the pairs of channels in
 * ascending order; subnormal numbers count as zero. VDPBF16PS: of each pair the odd channel first,
 * by fma. BFDOT: the sum of a pair's products is added, and both sums are rounded to odd, that is
 * towards zero and with the last bit set unless they are exact (Arm's manual: BFDotAdd). AMX: 32
 * channels at a time, the even ones by fma from 0 and so the odd ones; their sum joins the
 * accumulator, and what is subnormal becomes zero after each step (Intel's manual: TDPBF16PS). */
struct gemm_bf16 {
    enum bf16_layout layout;
    const uint16_t *a;
    size_t a_stride;
    const uint16_t *b;
    size_t b_stride;
    float *c;
    size_t c_stride; /* in floats */
    uint32_t m, n, k;
    bool accumulate;
    /* The rows of a context lie in pages: rows 64i to 64i + 63 of B (BF16_ROWS) or of A (else)
     * begin at pieces[i]. NULL, or a level with core_blocks 1: all lie at b or a, where pieces[0]
     * is. */
    const uint16_t *const *pieces;
    /* BF16_ROWS: what is wanted next and lies in pieces as B does, for a level to bring near
     * meanwhile; NULL: nothing */
    const uint16_t *const *ahead;
};
