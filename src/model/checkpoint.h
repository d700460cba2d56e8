/* SPDX-License-Identifier: Apache-2.0
 * A Hugging Face checkpoint directory, opened and validated: config.json, model.safetensors or shards
 * with model.safetensors.index.json. Owns the file mappings; tensors point into them, read-only.
 */
#ifndef MODEL_CHECKPOINT_H
#define MODEL_CHECKPOINT_H

#include "model/shape.h"

enum tensor_type { TENSOR_BF16, TENSOR_F16, TENSOR_F32, TENSOR_E4M3, TENSOR_TYPE_COUNT };

struct tensor {
    const char *name;
    enum tensor_type type;
    uint32_t dims;      /* 1 or 2 */
    uint64_t shape[2];  /* [rows][cols], or [n] */
    const void *data;   /* may be unaligned; NULL when the checkpoint was opened without shards */
    uint64_t bytes;
    const char *file;   /* shard it lies in, for messages */
};

struct checkpoint;

enum checkpoint_parts {
    CHECKPOINT_WHOLE,       /* everything must be there and right */
    CHECKPOINT_SHAPE_ONLY,  /* config.json, and shards or index if present: for inspection */
};

/* Opens and checks: headers (sizes, offsets inside the file, no overlap, types), that every tensor
 * the shape asks for exists with the right dims and a usable type, FP8 tensors have their scale
 * (possibly in another shard) of ceil(rows/128) x ceil(cols/128), scales finite and no NaN. One line
 * that names file, tensor, expected and found. */
enum status checkpoint_open(const char *directory, enum checkpoint_parts parts,
                            struct checkpoint **checkpoint_out, struct error *error);
void checkpoint_close(struct checkpoint *checkpoint);

const struct shape *checkpoint_shape(const struct checkpoint *checkpoint);

/* NULL if the checkpoint has no such tensor. The returned struct lives with the checkpoint. */
const struct tensor *checkpoint_tensor(const struct checkpoint *checkpoint, const char *name);

/* `name` is a tensor "….weight"; its "….weight_scale_inv", or NULL. */
const struct tensor *checkpoint_scale(const struct checkpoint *checkpoint, const struct tensor *weight);

/* All tensors, in name order. */
uint32_t checkpoint_tensor_count(const struct checkpoint *checkpoint);
const struct tensor *checkpoint_tensor_at(const struct checkpoint *checkpoint, uint32_t index);

/* 32 bytes that identify the weights: SHA-256 over config.json and every shard's header and size. */
void checkpoint_identity(const struct checkpoint *checkpoint, uint8_t out[32]);

/* Converts `count` elements from `first` on to floats (FP8: raw code values, without scale). */
void tensor_to_float(const struct tensor *tensor, uint64_t first, uint64_t count, float *out);

#endif
