/* SPDX-License-Identifier: Apache-2.0
 * A tensor of a model's files: its type, its place in a mapped file, and its values as floats.
 */
#pragma once

#include <stdint.h>

#include "base/status.h"

enum tensor_type {
    TENSOR_BF16,
    TENSOR_F16,
    TENSOR_F32,
    TENSOR_E4M3,
    /* from here on: types that checkpoint.c makes of other types' bytes */
    TENSOR_INT4_32, /* codes of four bits; the types of enum weight_type */
    TENSOR_INT4_128,
    TENSOR_MXFP4,
    TENSOR_E8M0,      /* scales: 2^(value - 127) */
    TENSOR_E4M3_32,   /* E4M3 in blocks of 32 x 32 */
    TENSOR_I64,       /* ids */
    TENSOR_E4M3_ROWS, /* E4M3 in rows, 32 channels a scale */
    /* blocks of GGUF files, with their scales inside (ggml_block.h) */
    TENSOR_Q4_0,
    TENSOR_Q4_1,
    TENSOR_Q5_0,
    TENSOR_Q5_1,
    TENSOR_Q8_0,
    TENSOR_Q4_K,
    TENSOR_Q5_K,
    TENSOR_Q6_K,
    TENSOR_MXFP4_BLOCKS,
    TENSOR_TYPE_COUNT /* any other type of a file; only its size is used */
};

/* Codes of four bits have the name, type and extents of the weight that they stand for, whatever
 * the file calls them (X.weight_packed, I32 [rows][cols / 8] or U8 [rows][cols / 2]). */
struct tensor {
    const char *name;
    enum tensor_type type;
    uint32_t dims;     /* 1 or 2 */
    uint64_t shape[2]; /* [rows][cols], or [n] */
    const void *data;  /* may be unaligned; NULL when the checkpoint was opened without shards */
    uint64_t bytes;
    const char *file; /* the shard's name, for messages */
    /* The parts of a kv_b that has two; else NULL. Then `data` is NULL, and `bytes` are those that
     * one matrix would take. */
    const struct tensor_halves *halves;
};

/* kv_b as GGUF files have it: for each head the rows of its keys, transposed, and those of its
 * values. */
struct tensor_halves {
    struct tensor keys;   /* [heads * kv_rank][nope] */
    struct tensor values; /* [heads * value][kv_rank] */
    uint32_t nope, value; /* rows of a head */
};

/* Such as "BF16" or "INT4 in groups of 32". */
const char *tensor_type_name(enum tensor_type type);
/* Bytes of `count` adjacent values. */
uint64_t tensor_type_bytes(enum tensor_type type, uint64_t count);

/* Converts `count` elements from `first` on to floats; of a tensor in halves, whole rows. Codes are
 * not multiplied by the scales of another tensor. */
void tensor_to_float(const struct tensor *tensor, uint64_t first, uint64_t count, float *out);

/* Reads the whole tensor. STATUS_CORRUPT at the first NaN or infinity; the error names file, tensor
 * and place. */
enum status tensor_check_finite(const struct tensor *tensor, struct error *error);

/* A tensor's name cut to fit a message. */
#define TENSOR_SHOWN_BYTES 128
const char *tensor_shown(const char *name, char out[TENSOR_SHOWN_BYTES]);

/* A shape as text, such as "[128, 256]". */
#define TENSOR_SHAPE_BYTES 192
const char *tensor_shape_text(const uint64_t *shape, uint32_t dims, char out[TENSOR_SHAPE_BYTES]);
