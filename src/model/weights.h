/* SPDX-License-Identifier: Apache-2.0
 * The weights in the forms that kernels read, all in one anonymous mapping: FP8 stays FP8, BF16
 * stays BF16, F32 and F16 become F32. The embedding alone stays in the mapped file: a step reads
 * only its tokens' rows.
 *
 * Routed experts lie in slots of one fixed stride: gate, up and down with their scales at fixed
 * offsets, so that an expert moves by copying a slot. Which experts a rank's slots hold is said by
 * the placement (exchange/placement.h); only those are read. If experts differ in type among
 * themselves, here or elsewhere, all are kept as F32, so that all ranks agree.
 *
 * What is not a routed expert is held by every rank in full. (Ranks of one machine could share one
 * copy; they do not yet.)
 *
 * kv_b is kept as panels for the expanded attention form. The absorbed form multiplies by each
 * head's key half transposed, q' = W_k^T q, and by its value half, o = W_v u. The key halves are
 * kept once more, transposed; the value halves are views into kv_b's panels where a head's rows
 * start on an FP8 scale block (V3: always), else copies. A half whose scales cannot be cut out,
 * because its rows straddle scale blocks, is kept dequantized as F32.
 */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "exchange/placement.h"
#include "model/pack.h"

struct mlp_weights {
    struct packed_matrix gate, up, down;
};

struct attention_weights {
    float *norm;                    /* [hidden] input_layernorm */
    struct packed_matrix q;         /* q_proj, if q_rank is 0 */
    struct packed_matrix q_a;       /* [q_rank][hidden] */
    float *q_a_norm;                /* [q_rank] */
    struct packed_matrix q_b;       /* [heads * (nope + rope)][q_rank] */
    struct packed_matrix kv_a;      /* [kv_rank + rope][hidden] */
    float *kv_a_norm;               /* [kv_rank] */
    struct packed_matrix kv_b;      /* [heads * (nope + value)][kv_rank] */
    struct packed_matrix o;         /* [hidden][heads * value] */
    struct packed_matrix *absorb_k; /* [heads], each [kv_rank][nope] */
    struct packed_matrix *absorb_v; /* [heads], each [value][kv_rank] */
};

struct layer_weights {
    struct attention_weights attention;
    float *mlp_norm; /* [hidden] post_attention_layernorm */
    bool is_moe;
    struct mlp_weights dense;
    struct packed_matrix router; /* [experts][hidden] */
    float *router_bias;          /* [experts] or NULL */
    struct mlp_weights shared;   /* no data if there are no shared experts */
    uint32_t first_slot;         /* of the layer's, among this rank's */
};

/* An MTP module: the block is layer `layers` of the checkpoint. */
struct mtp_weights {
    struct layer_weights block;
    float *embedding_norm, *hidden_norm, *head_norm; /* [hidden] enorm, hnorm, shared_head.norm */
    struct packed_matrix projection;                 /* eh_proj [hidden][2 * hidden] */
};

/* Where things are in an expert slot. */
struct expert_layout {
    struct mlp_weights matrices; /* data and scales are offsets from the slot's start */
    size_t slot_bytes;
    bool filled; /* types are known */
};

struct weights {
    struct layer_weights *layers; /* [shape->layers] */
    struct mtp_weights *mtp;      /* NULL without MTP */
    float *final_norm;
    struct packed_matrix head; /* [vocab][hidden] */
    const struct tensor *embedding;
    struct expert_layout expert;
    char **slots; /* [slot_count] each slot's memory, slot_bytes; as packed, or moved here since */
    uint32_t slot_count; /* MoE layers * slots of this rank in each */
    char *memory;
    size_t bytes;     /* of the mapping */
    size_t mtp_bytes; /* of them, the MTP layer's, without its experts' slots */
};

struct weights_options {
    bool mtp;                          /* the first MTP layer too */
    const struct placement *placement; /* of routed experts; NULL: all, each in its own slot */
    uint32_t rank;                     /* whose slots are filled */
};

/* Loads everything. The checkpoint must stay open. */
enum status weights_load(struct weights *weights, const struct checkpoint *checkpoint,
                         const struct weights_options *options, struct team *team,
                         const struct pack_progress *progress, struct error *error);
void weights_close(struct weights *weights);

/* The matrices of the expert in a slot. */
struct mlp_weights weights_expert(const struct weights *weights, uint32_t slot);

/* A slot's memory becomes another, which holds a packed expert; the old one is returned. */
char *weights_put_slot(struct weights *weights, uint32_t slot, char *memory) MUST_USE;

/* Matrix of rows [first, first + count) of another; `first` is a multiple of 128 (of FP8 scales).
 */
struct packed_matrix weights_row_view(const struct packed_matrix *whole, uint32_t first,
                                      uint32_t count);

#endif
