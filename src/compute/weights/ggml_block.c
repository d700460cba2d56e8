/* SPDX-License-Identifier: Apache-2.0
 * The layouts of ggml's blocks. Each function takes one apart; the arithmetic is the same for all
 * but MXFP4, which has a power of two for a scale.
 */
#include "compute/weights/ggml_block.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/number.h"
#include "compute/kernels/code_values.h"

#define SMALL 32 /* values of a block with one scale */
#define LARGE WEIGHT_SUPER_MAX
#define HALF sizeof(uint16_t)

typedef void split_block(const uint8_t *block, struct weight_super *out);

static uint16_t half_at(const uint8_t *at) {
    return (uint16_t)(at[0] | at[1] << 8);
}

/* Codes of four bits: the lower ones are those of the first half. */
static void split_nibbles(const uint8_t *nibbles, int32_t offset, int8_t *codes) {
    for (uint32_t i = 0; i < SMALL / 2; i++) {
        codes[i] = (int8_t)((nibbles[i] & 15) + offset);
        codes[i + SMALL / 2] = (int8_t)((nibbles[i] >> 4) + offset);
    }
}

/* A fifth bit for each of 32 codes. */
static void add_fifth_bits(const uint8_t *bits, int8_t *codes) {
    for (uint32_t i = 0; i < SMALL; i++)
        codes[i] = (int8_t)(codes[i] + ((bits[i / 8] >> i % 8 & 1) << 4));
}

static void split_q4_0(const uint8_t *block, struct weight_super *out) {
    out->d = half_at(block);
    split_nibbles(block + HALF, -8, out->codes);
}

/* A value is q d + m: minus -1 times m. */
static void split_q4_1(const uint8_t *block, struct weight_super *out) {
    out->d = half_at(block);
    out->d_min = half_at(block + HALF);
    out->mins[0] = -1;
    split_nibbles(block + 2 * HALF, 0, out->codes);
}

static void split_q5_0(const uint8_t *block, struct weight_super *out) {
    out->d = half_at(block);
    split_nibbles(block + HALF + 4, -16, out->codes);
    add_fifth_bits(block + HALF, out->codes);
}

static void split_q5_1(const uint8_t *block, struct weight_super *out) {
    out->d = half_at(block);
    out->d_min = half_at(block + HALF);
    out->mins[0] = -1;
    split_nibbles(block + 2 * HALF + 4, 0, out->codes);
    add_fifth_bits(block + 2 * HALF, out->codes);
}

static void split_q8_0(const uint8_t *block, struct weight_super *out) {
    out->d = half_at(block);
    memcpy(out->codes, block + HALF, SMALL);
}

/* Eight scales and eight minima of six bits in twelve bytes: the first four of each in the lower
 * six bits of bytes 0 to 7. The upper two bits of those bytes belong to the last four. */
static void split_six_bits(const uint8_t *packed, struct weight_super *out) {
    for (uint32_t i = 0; i < 4; i++) {
        out->scales[i] = (int8_t)(packed[i] & 63);
        out->mins[i] = (int8_t)(packed[i + 4] & 63);
        out->scales[i + 4] = (int8_t)((packed[i + 8] & 15) | (packed[i] >> 6) << 4);
        out->mins[i + 4] = (int8_t)(packed[i + 8] >> 4 | (packed[i + 4] >> 6) << 4);
    }
}

/* Pairs of 32 codes, the first of a pair in the lower bits of 32 bytes. */
static void split_pairs(const uint8_t *nibbles, int8_t *codes) {
    for (uint32_t i = 0; i < LARGE; i++)
        codes[i] = (int8_t)(nibbles[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15);
}

static void split_q4_k(const uint8_t *block, struct weight_super *out) {
    out->d = half_at(block);
    out->d_min = half_at(block + HALF);
    split_six_bits(block + 2 * HALF, out);
    split_pairs(block + 2 * HALF + 12, out->codes);
}

static void split_q5_k(const uint8_t *block, struct weight_super *out) {
    const uint8_t *fifth = block + 2 * HALF + 12; /* [32], a bit for each group */
    out->d = half_at(block);
    out->d_min = half_at(block + HALF);
    split_six_bits(block + 2 * HALF, out);
    split_pairs(fifth + 32, out->codes);
    for (uint32_t i = 0; i < LARGE; i++)
        out->codes[i] = (int8_t)(out->codes[i] + ((fifth[i % 32] >> i / 32 & 1) << 4));
}

/* Two halves of 128 values, each four times 32: the lower four bits in 64 bytes, the upper two in
 * 32 bytes. */
static void split_q6_k(const uint8_t *block, struct weight_super *out) {
    const uint8_t *lower = block, *upper = block + LARGE / 2, *scales = upper + LARGE / 4;
    for (uint32_t i = 0; i < LARGE; i++) {
        uint32_t half = i / 128, quarter = i / 32 % 4, at = i % 32;
        uint32_t low = lower[half * 64 + quarter % 2 * 32 + at] >> quarter / 2 * 4 & 15;
        uint32_t high = upper[half * 32 + at] >> quarter * 2 & 3;
        out->codes[i] = (int8_t)((int32_t)(low | high << 4) - 32);
    }
    memcpy(out->scales, scales, LARGE / 16);
    out->d = half_at(scales + LARGE / 16);
}

/* Its codes stay codes: their scale is no half-float. */
static void split_mxfp4(const uint8_t *block, struct weight_super *out) {
    out->d = block[0];
    split_nibbles(block + 1, 0, out->codes);
}

struct ggml_row {
    const char *name;
    uint32_t number; /* ggml's */
    uint32_t values, bytes;
    uint32_t group; /* values with the same scale */
    bool has_mins;
    split_block *split;
};

static const struct ggml_row rows[TENSOR_TYPE_COUNT] = {
    [TENSOR_F32] = {"F32", 0, 1, 4, 1, false, NULL},
    [TENSOR_F16] = {"F16", 1, 1, 2, 1, false, NULL},
    [TENSOR_BF16] = {"BF16", 30, 1, 2, 1, false, NULL},
    [TENSOR_Q4_0] = {"Q4_0", 2, SMALL, 18, SMALL, false, split_q4_0},
    [TENSOR_Q4_1] = {"Q4_1", 3, SMALL, 20, SMALL, true, split_q4_1},
    [TENSOR_Q5_0] = {"Q5_0", 6, SMALL, 22, SMALL, false, split_q5_0},
    [TENSOR_Q5_1] = {"Q5_1", 7, SMALL, 24, SMALL, true, split_q5_1},
    [TENSOR_Q8_0] = {"Q8_0", 8, SMALL, 34, SMALL, false, split_q8_0},
    [TENSOR_Q4_K] = {"Q4_K", 12, LARGE, 144, 32, true, split_q4_k},
    [TENSOR_Q5_K] = {"Q5_K", 13, LARGE, 176, 32, true, split_q5_k},
    [TENSOR_Q6_K] = {"Q6_K", 14, LARGE, 210, 16, false, split_q6_k},
    [TENSOR_MXFP4_BLOCKS] = {"MXFP4", 39, SMALL, 17, SMALL, false, split_mxfp4},
};

/* Types that are refused by their names: enum ggml_type of ggml.h. */
static const struct {
    uint32_t number;
    const char *name;
} others[] = {
    {9, "Q8_1"},     {10, "Q2_K"},  {11, "Q3_K"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"},
    {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"},
    {24, "I8"},      {25, "I16"},   {26, "I32"},    {27, "I64"},   {28, "F64"},     {29, "IQ1_M"},
    {34, "TQ1_0"},   {35, "TQ2_0"}, {40, "NVFP4"},  {41, "Q1_0"},  {42, "Q2_0"},
};

enum tensor_type ggml_block_find(uint32_t number, const char **name_out) {
    for (uint32_t type = 0; type < TENSOR_TYPE_COUNT; type++)
        if (rows[type].name && rows[type].number == number) {
            *name_out = rows[type].name;
            return (enum tensor_type)type;
        }
    *name_out = "an unknown type";
    for (size_t i = 0; i < ARRAY_COUNT(others); i++)
        if (others[i].number == number) *name_out = others[i].name;
    return TENSOR_TYPE_COUNT;
}

const char *ggml_block_name(enum tensor_type type) {
    check(type < TENSOR_TYPE_COUNT && rows[type].name);
    return rows[type].name;
}

uint32_t ggml_block_values(enum tensor_type type) {
    check(type < TENSOR_TYPE_COUNT && rows[type].values);
    return rows[type].values;
}

uint32_t ggml_block_bytes(enum tensor_type type) {
    check(type < TENSOR_TYPE_COUNT && rows[type].values);
    return rows[type].bytes;
}

void ggml_block_split(enum tensor_type type, const void *block, struct weight_super *out) {
    check(ggml_block_is(type));
    const struct ggml_row *row = &rows[type];
    memset(out->scales, 1, sizeof out->scales);
    memset(out->mins, 0, sizeof out->mins);
    out->d_min = 0;
    row->split(block, out);
}

void ggml_block_to_float(enum tensor_type type, const void *block, float *out) {
    struct weight_super super;
    ggml_block_split(type, block, &super);
    const struct ggml_row *row = &rows[type];
    if (type == TENSOR_MXFP4_BLOCKS) {
        const float unit = ldexpf(1, super.d - 128); /* of twice the codes' values: no -0 */
        for (uint32_t i = 0; i < row->values; i++)
            out[i] = (float)code_values_of(WEIGHT_MXFP4)[super.codes[i]] * unit;
        return;
    }
    const float d = float_from_f16(super.d), d_min = float_from_f16(super.d_min);
    for (uint32_t i = 0; i < row->values; i++) {
        const uint32_t group = i / row->group;
        const float scale = d * (float)super.scales[group];
        out[i] = scale * (float)super.codes[i];
        if (row->has_mins) out[i] -= d_min * (float)super.mins[group];
    }
}
