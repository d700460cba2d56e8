/* SPDX-License-Identifier: Apache-2.0
 * INT8 values and codes of four bits as bytes, in the order in which instructions multiply them.
 * Each matmul_int8_*.c includes its ints_*.h before it. Private to src/compute/kernels.
 *
 * A lane has four channels of an output in bytes, as the words of packed codes have them: 0, 4, 1
 * and 5 of eight in the lower halves of the bytes, 2, 6, 3 and 7 in the upper ones. x lies in that
 * order. Where an instruction takes unsigned codes, a constant is added to all of them, and that
 * many times the sum of x is subtracted at the end.
 */
#pragma once

#ifdef INTS
#include "compute/kernels/code_values.h"

#define PART INT8_GROUP

/* The constant added to a code's value. */
ALWAYS_INLINE int32_t code_offset(enum weight_type type) {
    if (!INT_CODES_UNSIGNED) return 0;
    return type == WEIGHT_MXFP4 ? 12 : 8;
}

/* A row of a block, as tiles read it: X_BYTES a channel. */
#define X_BYTES 2
struct packed_row {
    int8_t x[QUANT_GROUP];
    int32_t offset[QUANT_GROUP / PART]; /* minus code_offset times the sum of x */
    float scale[QUANT_GROUP / PART];
    char unused[(X_BYTES - 1) * QUANT_GROUP - 8 * (QUANT_GROUP / PART)];
};
_Static_assert(sizeof(struct packed_row) == X_BYTES * QUANT_GROUP, "rows are adjacent");

typedef int8_t sixteen_bytes __attribute__((vector_size(16)));

static void pack_int8(void *out, const int8_t *x, const float *scales, uint32_t count,
                      enum weight_type type) {
    struct packed_row *row = out;
    for (uint32_t i = 0; i < count; i += 16) {
        sixteen_bytes v;
        memcpy(&v, x + i, sizeof v);
        v = __builtin_shufflevector(v, v, 0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
        memcpy(row->x + i, &v, sizeof v);
    }
    for (uint32_t part = 0; part < count / PART; part++, x += PART) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < PART; i++)
            sum += x[i];
        row->offset[part] = -code_offset(type) * sum;
        row->scale[part] = scales[part] * weight_type_unit(type);
    }
}

/* The values of a type's codes, with code_offset added. */
ALWAYS_INLINE ints values_of(enum weight_type type) {
    int8_t values[16];
    for (int i = 0; i < 16; i++)
        values[i] = (int8_t)(code_values_of(type)[i] + code_offset(type));
    return ints_table(values);
}

/* Bytes of eight channels of INTS outputs: lower and upper halves. `looks_up`: codes are not the
 * values themselves. */
struct code_bytes {
    ints of[2];
};

ALWAYS_INLINE struct code_bytes code_bytes_of(bool looks_up, ints values, ints words) {
    struct code_bytes bytes = {{ints_low(words), ints_high(words)}};
    for (int i = 0; looks_up && i < 2; i++)
        bytes.of[i] = ints_look_up(values, bytes.of[i]);
    return bytes;
}

ALWAYS_INLINE bool type_looks_up(enum weight_type type) {
    return type == WEIGHT_MXFP4 || !INT_CODES_UNSIGNED;
}

/* [count / 4][MATMUL_PANEL][4] bytes. */
static void decode(void *out, enum weight_type type, const void *w, uint32_t count) {
    const ints values = values_of(type);
    for (size_t k = 0; k < count; k += 8)
        for (size_t i = 0; i < MATMUL_PANEL; i += INTS) {
            const char *words = (const char *)w + k * packed_channel_bytes(type) + i * 4;
            struct code_bytes codes = code_bytes_of(type_looks_up(type), values, ints_load(words));
            ints_store((char *)out + k * MATMUL_PANEL + i * 4, codes.of[0]);
            ints_store((char *)out + (k + 4) * MATMUL_PANEL + i * 4, codes.of[1]);
        }
}

#endif /* INTS */
