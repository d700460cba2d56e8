/* SPDX-License-Identifier: Apache-2.0
 * The weights of V4's layers. The output projection's first half is stored group by group, as each
 * group has inputs of its own. Its inputs are never quantized, so FP8 becomes BF16: with scales
 * that are powers of two that loses nothing.
 */
#include "compute/weights/weights_build.h"

static float *weights_compressed_floats(struct builder *builder, enum tensor_name name,
                                        uint32_t layer) {
    return weights_build_floats(builder, weights_build_tensor(builder, name, layer));
}

struct stream_weights weights_compressed_streams(struct builder *builder, enum tensor_name fn,
                                                 uint32_t layer) {
    return (struct stream_weights){
        .fn = weights_build_matrix(builder, fn, layer),
        .base = weights_compressed_floats(builder, fn + 1, layer),
        .scale = weights_compressed_floats(builder, fn + 2, layer),
    };
}

/* `first` is the first of a compressor's four names. */
static struct pool_weights put_pool(struct builder *builder, enum tensor_name first,
                                    uint32_t layer) {
    const struct shape *shape = builder->shape;
    struct pool_weights pool = {
        .value = weights_build_matrix(builder, first, layer),
        .norm = weights_compressed_floats(builder, first + 3, layer),
    };
    if (shape->layer_kinds[layer].ratio > 1)
        pool.gate = weights_build_matrix(builder, first + 1, layer);
    if (shape->overlaps) pool.positions = weights_compressed_floats(builder, first + 2, layer);
    return pool;
}

static void put_output_groups(struct builder *builder, uint32_t layer,
                              struct attention_weights *attention) {
    const struct shape *shape = builder->shape;
    const struct tensor *tensor = weights_build_tensor(builder, NAME_O_A, layer);
    attention->output_groups = builder->absorbed;
    builder->absorbed += shape->output_groups;
    if (!tensor) return;
    const enum weight_type type = pack_type(tensor) == WEIGHT_FP8 ? WEIGHT_BF16 : pack_type(tensor);
    for (uint32_t group = 0; group < shape->output_groups; group++) {
        struct packed_matrix matrix =
            weights_build_at(builder, type, shape->output_rank, (uint32_t)tensor->shape[1]);
        weights_build_job(builder,
                          &(struct pack_job){.form = PACK_PANELS,
                                             .type = type,
                                             .tensor = tensor,
                                             .scale = checkpoint_scale(builder->checkpoint, tensor),
                                             .source_row = (uint64_t)group * shape->output_rank,
                                             .row_count = shape->output_rank,
                                             .data = (void *)(uintptr_t)matrix.data});
        if (builder->base) attention->output_groups[group] = matrix;
    }
}

static void put_index(struct builder *builder, uint32_t layer,
                      struct attention_weights *attention) {
    const struct layer_kind *kind = &builder->shape->layer_kinds[layer];
    attention->index_q = weights_build_matrix(builder, NAME_INDEX_Q, layer);
    attention->index_weights = weights_build_matrix(builder, NAME_INDEX_WEIGHTS, layer);
    if (builder->shape->overlaps) {
        attention->index_pool = put_pool(builder, NAME_INDEX_POOL, layer);
    } else if (kind->entry_source == layer) {
        attention->index_k = weights_build_matrix(builder, NAME_INDEX_K, layer);
        attention->index_k_norm = weights_compressed_floats(builder, NAME_INDEX_K_NORM, layer);
    }
}

static void put_engram(struct builder *builder, uint32_t layer, struct engram_weights *engram) {
    engram->table = weights_build_tensor(builder, NAME_ENGRAM_TABLE, layer);
    if (engram->table) engram->scales = checkpoint_scale(builder->checkpoint, engram->table);
    engram->kv = weights_build_matrix(builder, NAME_ENGRAM_KV, layer);
    engram->q_norm = weights_compressed_floats(builder, NAME_ENGRAM_Q_NORM, layer);
    engram->k_norm = weights_compressed_floats(builder, NAME_ENGRAM_K_NORM, layer);
}

void weights_compressed_put(struct builder *builder, uint32_t layer,
                            struct layer_weights *weights) {
    const struct layer_kind *kind = &builder->shape->layer_kinds[layer];
    struct attention_weights *attention = &weights->attention;
    if (kind->has_engram) put_engram(builder, layer, &weights->engram);
    attention->streams = weights_compressed_streams(builder, NAME_ATTENTION_FN, layer);
    weights->mlp_streams = weights_compressed_streams(builder, NAME_MLP_FN, layer);
    attention->norm = weights_compressed_floats(builder, NAME_ATTENTION_NORM, layer);
    attention->q_a = weights_build_matrix(builder, NAME_Q_A, layer);
    attention->q_a_norm = weights_compressed_floats(builder, NAME_Q_A_NORM, layer);
    attention->q_b = weights_build_matrix(builder, NAME_Q_B, layer);
    attention->kv_a = weights_build_matrix(builder, NAME_KV, layer);
    attention->kv_a_norm = weights_compressed_floats(builder, NAME_KV_NORM, layer);
    attention->sink = weights_compressed_floats(builder, NAME_SINK, layer);
    put_output_groups(builder, layer, attention);
    attention->o = weights_build_matrix(builder, NAME_O_B, layer);
    if (kind->ratio && kind->entry_source == layer)
        attention->pool = put_pool(builder, NAME_POOL, layer);
    if (kind->ratio && kind->index_source == layer) put_index(builder, layer, attention);
}

void weights_compressed_put_mtp(struct builder *builder, uint32_t layer, struct mtp_weights *mtp) {
    mtp->embedding_projection = weights_build_matrix(builder, NAME_MTP_EMBEDDING_PROJECTION, layer);
    mtp->hidden_projection = weights_build_matrix(builder, NAME_MTP_HIDDEN_PROJECTION, layer);
    mtp->head_streams = weights_compressed_streams(builder, NAME_MTP_HEAD_FN, layer);
}
