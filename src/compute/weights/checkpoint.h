/* SPDX-License-Identifier: Apache-2.0
 * A Hugging Face checkpoint directory, opened and validated: config.json, model.safetensors or
 * shards with model.safetensors.index.json. Owns the file mappings; tensors point into them,
 * read-only.
 */
#pragma once

#include "compute/weights/layout.h"
#include "compute/weights/safetensors.h" /* enum tensor_type */

struct tensor {
    const char *name;
    enum tensor_type type;
    uint32_t dims;     /* 1 or 2 */
    uint64_t shape[2]; /* [rows][cols], or [n] */
    const void *data;  /* may be unaligned; NULL when the checkpoint was opened without shards */
    uint64_t bytes;
    const char *file; /* shard it lies in, for messages */
};

struct checkpoint;

enum checkpoint_parts {
    CHECKPOINT_WHOLE, /* everything must be there and right */
    /* config.json, and shards or index if present: for inspection. A tensor of an absent shard gets the size
     * that the shape asks for and no data. */
    CHECKPOINT_SHAPE_ONLY
};

/* Opens and checks: headers (sizes, offsets inside the file, no overlap, types), that every tensor
 * the shape asks for exists with the right dims and a usable type, FP8 tensors have their scale
 * (possibly in another shard) of ceil(rows/128) x ceil(cols/128), scales finite and no NaN. One
 * line that names file, tensor, expected and found. Tensors that the shape does not ask for are
 * ignored. An MTP layer that config.json announces may be absent altogether, as many copies drop it
 * (checkpoint_has_mtp). Scales, norms and the router's biases are checked for NaN and infinity
 * here; weights are checked by their readers (checkpoint_tensor_check_finite). */
enum status checkpoint_open(const char *directory, enum checkpoint_parts parts,
                            struct checkpoint **checkpoint_out, struct error *error);
void checkpoint_close(struct checkpoint *checkpoint);

/* A checkpoint with its tensors in memory: all that the shape asks for, without MTP layers. Takes
 * over mapping, names and table. */
struct checkpoint_memory {
    struct bytes map;       /* a mapping, in which the tensors' data lie */
    char *names;            /* of the tensors; from malloc, as is the table */
    struct tensor *tensors; /* [tensor_count] in any order */
    uint32_t tensor_count;
};
struct checkpoint *checkpoint_take(const struct shape *shape,
                                   const struct checkpoint_memory *memory);

const struct shape *checkpoint_shape(const struct checkpoint *checkpoint);

/* True if the weights of all MTP layers that the shape announces are there (and it announces any).
 * An MTP layer's copies of embedding and head may be missing even so: they equal the main model's.
 */
bool checkpoint_has_mtp(const struct checkpoint *checkpoint);

/* NULL if the checkpoint has no such tensor. With a tied head, the head is the embedding. The
 * returned struct lives with the checkpoint. */
const struct tensor *checkpoint_tensor(const struct checkpoint *checkpoint, const char *name);
/* The same by the architecture's table of names; arguments as in layout_write_name. */
const struct tensor *checkpoint_find(const struct checkpoint *checkpoint, enum tensor_name name,
                                     uint32_t layer, uint32_t expert);

/* The scales of a tensor, or NULL. */
const struct tensor *checkpoint_scale(const struct checkpoint *checkpoint,
                                      const struct tensor *weight);

/* All tensors of a usable type with one or two dimensions, in name order. */
uint32_t checkpoint_tensor_count(const struct checkpoint *checkpoint);
const struct tensor *checkpoint_tensor_at(const struct checkpoint *checkpoint, uint32_t index);

/* 32 bytes that identify the weights: SHA-256 over config.json and, of every shard, size, header
 * and evenly spaced samples of the data (so that two trainings of one shape differ). Without
 * shards, over config.json and index alone. */
void checkpoint_identity(const struct checkpoint *checkpoint, uint8_t out[32]);

/* True if all shards are there, so that the identity is that of the weights. */
bool checkpoint_has_weights(const struct checkpoint *checkpoint);

/* 32 bytes that identify these very files: the identity, and when each shard was written. */
void checkpoint_files(const struct checkpoint *checkpoint, uint8_t out[32]);

/* Converts `count` elements from `first` on to floats (FP8: raw code values, without scale). */
void checkpoint_tensor_to_float(const struct tensor *tensor, uint64_t first, uint64_t count,
                                float *out);

/* STATUS_CORRUPT, naming file, tensor and place, at the first NaN or infinity. Reads the whole
 * tensor. */
enum status checkpoint_tensor_check_finite(const struct tensor *tensor, struct error *error);
