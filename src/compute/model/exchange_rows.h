/* SPDX-License-Identifier: Apache-2.0
 * The format of rows that dispatch and combine send between ranks. The receiver gets exactly the
 * values with which a single rank would compute: a linear's prepared input or a rounded result.
 * They are E4M3 codes or INT8 values with group scales, BF16, or F32, all little-endian.
 */
#pragma once

#include "compute/kernels/kernels.h"

enum row_mla_mode {
    ROW_F32,
    ROW_BF16, /* packing rounds to BF16 */
    ROW_FP8,  /* codes[n], then (at a multiple of 4) scales[ceil(n / 128)] */
    ROW_INT8, /* the same with scales[n / 32] */
};

/* Bytes of a row of n values, a multiple of 16. */
size_t exchange_rows_bytes(enum row_mla_mode form, uint32_t n);
/* Byte offset of the scales in a ROW_FP8 or ROW_INT8 row. */
size_t exchange_rows_scales_at(uint32_t n);

/* Packs x[n] into `bytes`, and unpacks it. Not for rows with scales. */
void exchange_rows_pack(const struct kernels *kernels, enum row_mla_mode form, const float *x,
                        uint32_t n, char *bytes);
void exchange_rows_unpack(const struct kernels *kernels, enum row_mla_mode form, const char *bytes,
                          uint32_t n, float *x);

/* Converts BF16 values that E4M3 can represent to codes, and back. */
void exchange_rows_encode(const uint16_t *values, uint32_t n, uint8_t *codes);
void exchange_rows_decode(const uint8_t *codes, uint32_t n, uint16_t *values);
