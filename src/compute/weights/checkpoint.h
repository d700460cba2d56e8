/* SPDX-License-Identifier: Apache-2.0
 * Opens and validates a Hugging Face checkpoint directory: config.json, and model.safetensors or
 * shards with model.safetensors.index.json. It owns the file mappings. Tensors point into them and
 * are read-only.
 */
#pragma once

#include "compute/weights/layout.h"
#include "compute/weights/load_progress.h"
#include "compute/weights/tensor.h"

struct checkpoint;

enum checkpoint_parts {
    CHECKPOINT_WHOLE, /* everything must be present and valid */
    /* The same without checks that read data: call checkpoint_verify before using weights. */
    CHECKPOINT_UNVERIFIED,
    /* For inspection: config.json, and shards or index if present. A tensor of an absent shard has
     * the size given by the shape and no data. */
    CHECKPOINT_SHAPE_ONLY,
    CHECKPOINT_CONFIG_ONLY /* config.json and generation_config.json: the shape, no tensors */
};

/* Opens and validates a checkpoint. Headers must have valid sizes, types and offsets without
 * overlap. Every tensor of the shape must exist with the right dims and a usable type. FP8 tensors
 * must have a scale of ceil(rows/128) x ceil(cols/128), codes of four bits one for each row and
 * group, possibly in another shard. Other tensors are ignored. The MTP layers of config.json may be
 * absent altogether, as many copies drop them (checkpoint_has_mtp). An error names file,
 * tensor, expected and found in one line. */
enum status checkpoint_open(const char *directory, enum checkpoint_parts parts,
                            struct checkpoint **checkpoint_out, struct error *error);
/* The same with reports of the shards that are open. `progress` may be NULL. */
enum status checkpoint_open_reporting(const char *directory, enum checkpoint_parts parts,
                                      const struct load_progress *progress,
                                      struct checkpoint **checkpoint_out, struct error *error);
/* Checks scales, norms and router biases for NaN and infinity, once: later calls do nothing.
 * Weights are checked by their readers (tensor_check_finite). */
enum status checkpoint_verify(struct checkpoint *checkpoint, const struct load_progress *progress,
                              struct error *error);
void checkpoint_close(struct checkpoint *checkpoint);

/* Makes a checkpoint of tensors in memory: all those of the shape, without MTP layers. It takes
 * ownership of mapping, names and table. */
struct checkpoint_memory {
    struct bytes map;       /* a mapping with the tensors' data */
    char *names;            /* of the tensors; from malloc, like the table */
    struct tensor *tensors; /* [tensor_count] in any order */
    uint32_t tensor_count;
};
struct checkpoint *checkpoint_take(const struct shape *shape,
                                   const struct checkpoint_memory *memory);

const struct shape *checkpoint_shape(const struct checkpoint *checkpoint);

/* The directory as it was given. */
const char *checkpoint_directory(const struct checkpoint *checkpoint);

/* True if the shape has MTP layers and the weights of all of them are present. An MTP layer's
 * copies of embedding and head may still be absent, as they equal the main model's.
 */
bool checkpoint_has_mtp(const struct checkpoint *checkpoint);

/* NULL if the checkpoint has no such tensor. With a tied head, the head is the embedding. The
 * returned struct lives with the checkpoint. */
const struct tensor *checkpoint_tensor(const struct checkpoint *checkpoint, const char *name);
/* checkpoint_tensor with a name from the architecture's table; arguments as in
 * layout_write_name. */
const struct tensor *checkpoint_find(const struct checkpoint *checkpoint, enum tensor_name name,
                                     uint32_t layer, uint32_t expert);

/* The scales of a tensor; NULL if it has none. */
const struct tensor *checkpoint_scale(const struct checkpoint *checkpoint,
                                      const struct tensor *weight);

/* All tensors of a usable type with one or two dimensions, in name order. */
uint32_t checkpoint_tensor_count(const struct checkpoint *checkpoint);
const struct tensor *checkpoint_tensor_at(const struct checkpoint *checkpoint, uint32_t index);

/* 32 bytes that identify the weights: SHA-256 over config.json and every shard's size, header and
 * evenly spaced samples of the data, so that two trainings of one shape differ. Without shards, it
 * is over config.json and index alone. */
void checkpoint_identity(const struct checkpoint *checkpoint, uint8_t out[32]);

/* True if all shards are present, so that the identity covers the weights. */
bool checkpoint_has_weights(const struct checkpoint *checkpoint);

/* 32 bytes that identify these files: a hash of the identity and each shard's modification time. */
void checkpoint_files(const struct checkpoint *checkpoint, uint8_t out[32]);
