/* SPDX-License-Identifier: Apache-2.0
 * How weights.c lays out a model's weights: a walk over the layers places each matrix and adds the
 * jobs that pack it. Only the files weights*.c include this header. weights.c describes the two
 * walks.
 */
#pragma once

#include "compute/weights/checkpoint.h"
#include "compute/weights/weights.h"

struct builder {
    const struct checkpoint *checkpoint;
    const struct shape *shape;
    const struct weights_options *options;
    struct weights *weights;
    char *base; /* NULL on the counting walk */
    size_t used;
    struct pack_list list;
    struct packed_matrix *absorbed; /* the next free one of weights->absorbed */
    uint64_t *wanted;               /* [slot_count] name of each slot's expert */
    enum status status;             /* the first failure */
    struct error *error;
};

/* Advances by that many bytes; NULL on the counting walk. */
void *weights_build_place(struct builder *builder, size_t bytes, size_t align);
void weights_build_job(struct builder *builder, const struct pack_job *job);
/* Finds a routed expert's tensor. If it is absent, sets the error and returns NULL. */
const struct tensor *weights_build_expert_tensor(struct builder *builder, enum tensor_name name,
                                                 uint32_t layer, uint32_t expert);
const struct tensor *weights_build_tensor(struct builder *builder, enum tensor_name name,
                                          uint32_t layer);
float *weights_build_floats(struct builder *builder, const struct tensor *tensor);
/* Places a matrix that is still to be filled. */
struct packed_matrix weights_build_at(struct builder *builder, enum weight_type type, uint32_t rows,
                                      uint32_t cols);
/* Adds the packing job of a matrix that has its descriptor and memory. */
void weights_build_fill(struct builder *builder, const struct packed_matrix *matrix,
                        const struct tensor *tensor);
/* Bytes of a matrix's data in its layout. */
size_t weights_build_data_bytes(const struct packed_matrix *matrix);
struct packed_matrix weights_build_matrix(struct builder *builder, enum tensor_name name,
                                          uint32_t layer);
/* Adds a BF16 copy of an E4M3 tensor. */
struct packed_matrix weights_build_bf16(struct builder *builder, const struct tensor *tensor);
/* Adds rows [first, first + count) of a tensor as a separate matrix, perhaps transposed. */
struct packed_matrix weights_build_rows(struct builder *builder, const struct tensor *tensor,
                                        uint32_t first, uint32_t count, bool transposed);
/* `gate` is the first of an MLP's three names. */
struct mlp_weights weights_build_mlp(struct builder *builder, enum tensor_name gate,
                                     uint32_t layer);

/* COMPRESSED layers, and what the streams need outside of the layers (weights_compressed.c). */
void weights_compressed_put(struct builder *builder, uint32_t layer, struct layer_weights *weights);
void weights_compressed_put_mtp(struct builder *builder, uint32_t layer, struct mtp_weights *mtp);
/* `fn` is the first of the three names of a site's weights. */
struct stream_weights weights_compressed_streams(struct builder *builder, enum tensor_name fn,
                                                 uint32_t layer);
