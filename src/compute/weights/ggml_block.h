/* SPDX-License-Identifier: Apache-2.0
 * The blocks of GGUF's quantized types. A block holds the codes of 32 or 256 adjacent values of a
 * row, and scales. Its values as floats are those of ggml's dequantize_row functions, bit for bit
 * (ggml-quants.c, ggml-common.h, https://github.com/ggml-org/ggml).
 */
#pragma once

#include <stdbool.h>

#include "compute/kernels/weight_super.h"
#include "compute/weights/tensor.h"

#define GGML_BLOCK_VALUES_MAX WEIGHT_SUPER_MAX

/* The type with ggml's number; TENSOR_TYPE_COUNT if it is not supported. *name_out: ggml's name of
 * it, or "an unknown type". */
enum tensor_type ggml_block_find(uint32_t number, const char **name_out);

/* True for types of blocks, from TENSOR_Q4_0 on. */
static inline bool ggml_block_is(enum tensor_type type) {
    return type >= TENSOR_Q4_0 && type <= TENSOR_MXFP4_BLOCKS;
}

/* ggml's name of a supported type. */
const char *ggml_block_name(enum tensor_type type);

/* Values and bytes of a block; of F32, F16 and BF16 a value is a block. */
uint32_t ggml_block_values(enum tensor_type type);
uint32_t ggml_block_bytes(enum tensor_type type);

/* Takes a block of a row apart, into the numbers that compute its values. */
void ggml_block_split(enum tensor_type type, const void *block, struct weight_super *out);

/* The values of a block. */
void ggml_block_to_float(enum tensor_type type, const void *block, float *out);
