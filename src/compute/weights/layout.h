/* SPDX-License-Identifier: Apache-2.0
 * The list of a checkpoint's tensors. Each architecture has a table of Hugging Face name patterns
 * and sizes, in the order of the published checkpoints (README_WEIGHTS.md). No other file spells a
 * tensor's name: validation, inspection and random weights visit the list, and weights.c looks up
 * tensors by enumerator. Pure.
 */
#pragma once

#include "compute/weights/shape.h"
#include "compute/weights/tensor.h"

enum tensor_name {
    NAME_EMBEDDING,
    /* before an MTP layer's block */
    NAME_MTP_EMBEDDING,
    NAME_MTP_EMBEDDING_NORM,
    NAME_MTP_HIDDEN_NORM,
    NAME_MTP_PROJECTION,
    NAME_MTP_EMBEDDING_PROJECTION, /* V4: instead of the one above, with NAME_MTP_HIDDEN_PROJECTION
     * */
    NAME_MTP_HIDDEN_PROJECTION,
    /* in each layer */
    NAME_ENGRAM_TABLE, /* V4.1's n-grams: table, keys and values of its rows, norms */
    NAME_ENGRAM_KV,
    NAME_ENGRAM_Q_NORM,
    NAME_ENGRAM_K_NORM,
    NAME_ATTENTION_FN, /* the streams' weights before attention: fn, base and scale are adjacent */
    NAME_ATTENTION_BASE,
    NAME_ATTENTION_SCALE,
    NAME_MLP_FN,
    NAME_MLP_BASE,
    NAME_MLP_SCALE,
    NAME_ATTENTION_NORM,
    NAME_Q_A,
    NAME_Q_A_NORM,
    NAME_Q_B,
    NAME_Q, /* replaces the three above if q_rank is 0 */
    NAME_KV_A,
    NAME_KV_A_NORM,
    NAME_KV_B,
    NAME_O,
    NAME_SINK, /* of COMPRESSED layers, like the next ones */
    NAME_KV,
    NAME_KV_NORM,
    NAME_O_A,
    NAME_O_B,
    NAME_POOL, /* compressor: values, gate, positions and norm are adjacent */
    NAME_POOL_GATE,
    NAME_POOL_POSITIONS,
    NAME_POOL_NORM,
    NAME_INDEX_POOL,
    NAME_INDEX_POOL_GATE,
    NAME_INDEX_POOL_POSITIONS,
    NAME_INDEX_POOL_NORM,
    NAME_INDEX_Q, /* of layers with an indexer */
    NAME_INDEX_K,
    NAME_INDEX_K_NORM,
    NAME_INDEX_K_BIAS,
    NAME_INDEX_WEIGHTS,
    NAME_MLP_NORM,
    NAME_ROUTER,
    NAME_ROUTER_BIAS,
    NAME_ROUTER_HASH, /* experts of each token id */
    NAME_EXPERT_GATE, /* gate, up and down are adjacent for each kind of MLP */
    NAME_EXPERT_UP,
    NAME_EXPERT_DOWN,
    NAME_SHARED_GATE,
    NAME_SHARED_UP,
    NAME_SHARED_DOWN,
    NAME_DENSE_GATE,
    NAME_DENSE_UP,
    NAME_DENSE_DOWN,
    /* after an MTP layer's block */
    NAME_MTP_HEAD_NORM,
    NAME_MTP_HEAD,
    NAME_MTP_HEAD_FN, /* V4: the streams' weights before the head, as above */
    NAME_MTP_HEAD_BASE,
    NAME_MTP_HEAD_SCALE,
    /* after all layers except MTP layers */
    NAME_FINAL_NORM,
    NAME_HEAD,
    NAME_HEAD_FN,
    NAME_HEAD_BASE,
    NAME_HEAD_SCALE,
    NAME_COUNT
};

enum layout_kind {
    LAYOUT_EMBEDDING,
    LAYOUT_ATTENTION,
    LAYOUT_INDEX,  /* the weights of an indexer's heads: never FP8 */
    LAYOUT_DENSE,  /* MLP of a dense layer */
    LAYOUT_ROUTER, /* gate and its bias */
    LAYOUT_EXPERT,
    LAYOUT_SHARED,
    LAYOUT_NORM,
    LAYOUT_HEAD,
    LAYOUT_MTP_PROJECTION, /* an MTP layer's eh_proj */
    LAYOUT_STREAMS,        /* F32 weights of the streams and of the attention's sinks */
    LAYOUT_POOL,           /* a compressor: never FP8 */
    LAYOUT_ENGRAM,         /* a table of n-grams: E4M3 in all checkpoints, groups of 32 a scale */
    LAYOUT_KIND_COUNT
};

#define LAYOUT_NONE UINT32_MAX
#define LAYOUT_NAME_BYTES 96
/* Suffixes of a tensor's name for its scales: those of FP8, and of codes of four bits. Such codes
 * themselves have a suffix in files, and none in any table of ours. */
#define LAYOUT_SCALE_SUFFIX "_scale_inv"
#define LAYOUT_GROUP_SCALE_SUFFIX "_scale"
#define LAYOUT_PACKED_SUFFIX "_packed"

struct layout_tensor {
    char name[LAYOUT_NAME_BYTES];
    enum tensor_name id;
    enum layout_kind kind;
    uint32_t layer;         /* LAYOUT_NONE outside the layers */
    uint32_t expert;        /* LAYOUT_NONE unless LAYOUT_EXPERT */
    uint32_t dims;          /* 1: [rows]; 2: [rows][columns], y = W x */
    uint64_t rows, columns; /* columns is 1 where dims is 1 */
    bool quantized;         /* a linear that FP8 checkpoints store as F8_E4M3 with a scale */
    bool packed;            /* a linear that this shape's checkpoints store in four bits */
    bool is_bias;           /* usually F32: the router's correction bias, the streams' weights */
    bool is_ids;            /* I64 */
    bool is_mtp;            /* in an MTP layer */
    bool optional;          /* an MTP layer's copy of the embedding or the head */
};

/* Called for each tensor. The visit stops at the first error and returns it. */
typedef enum status layout_visit(void *context, const struct layout_tensor *tensor,
                                 struct error *error);
enum status layout_for_each(const struct shape *shape, layout_visit *visit, void *context,
                            struct error *error);

/* Writes a tensor's name in the checkpoint. `layer` is ignored for tensors outside the layers, and
 * `expert` for all but routed experts. */
void layout_write_name(const struct shape *shape, enum tensor_name name, uint32_t layer,
                       uint32_t expert, char out[LAYOUT_NAME_BYTES]);

/* How checkpoints of this shape store a tensor. */
struct layout_stored {
    enum tensor_type type, scale_type;
    const char *scale_suffix; /* NULL: no scales */
    uint64_t scale_rows, scale_columns;
};
struct layout_stored layout_stored(const struct shape *shape, const struct layout_tensor *tensor);
/* The same of a tensor that has another type than expected. */
struct layout_stored layout_stored_as(enum tensor_type type, uint64_t rows, uint64_t columns);

/* Writes the name of a weight's scales: with the suffix, or in V4 with .scale in place of .weight.
 * Returns false if the type has none. */
bool layout_write_scale(const struct shape *shape, const char *weight, enum tensor_type type,
                        char out[LAYOUT_NAME_BYTES + 16]);

/* True for linears that take quantized inputs with power-of-two scales, if the checkpoint's
 * scale_fmt is "ue8m0" (V3.1). In DeepSeek-V3 inference/model.py only the plain Linear passes
 * scale_fmt on. */
bool layout_is_ue8m0(const struct shape *shape, enum tensor_name name);

/* V4: channels of a linear's input that share a scale in the fp8 modes; 0: its inputs are never
 * quantized, or as its weights' type has it. */
uint32_t layout_input_group(const struct shape *shape, enum tensor_name name);

/* True if the name is that of a routed expert's tensor, or of its scale. */
bool layout_is_expert(const char *name);

/* True if the name is that of an Engram table. */
bool layout_is_table(const char *name);

/* The type of the experts' codes in a checkpoint with experts in four bits. */
enum tensor_type layout_packed_type(const struct shape *shape);

/* A short name, such as "embedding" or "dense MLP". */
const char *layout_kind_name(enum layout_kind kind);
