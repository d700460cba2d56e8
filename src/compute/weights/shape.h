/* SPDX-License-Identifier: Apache-2.0
 * The shape of a model: the validated contents of config.json, and the only source of its
 * dimensions. Pure: parses bytes, opens nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/status.h"

enum router_scoring { ROUTER_SIGMOID, ROUTER_SOFTMAX, ROUTER_SQRT_SOFTPLUS };

/* The choice of experts. GREEDY: top-k over all. GROUP_LIMITED: groups with the largest maximum.
 * NOAUX_TC: biased scores; a group's score is the sum of its two largest. */
enum router_method { ROUTER_GREEDY, ROUTER_GROUP_LIMITED, ROUTER_NOAUX_TC };

/* config.json's "architectures". Each has a row of defaults in shape.c, and a table of tensors in
 * layout.c. */
enum architecture {
    ARCHITECTURE_DEEPSEEK_V3,
    ARCHITECTURE_DEEPSEEK_V2,
    ARCHITECTURE_DEEPSEEK_V32,
    ARCHITECTURE_GLM_MOE_DSA,   /* GLM-5 */
    ARCHITECTURE_GLM4_MOE_LITE, /* GLM-4.7-Flash */
    ARCHITECTURE_DEEPSEEK_V4,
    ARCHITECTURE_DEEPSEEK_V41,
    ARCHITECTURE_COUNT
};

/* The kinds of a layer's parts. The model's code depends on these, not on the architecture. */
/* DSA: MLA over the tokens that an indexer chooses (compute/model/attention_index.h). COMPRESSED:
 * one key that is also the value for all heads, over a window of tokens and over entries that each
 * stand for several tokens (compute/model/attention_compressed.h). */
enum attention_kind { ATTENTION_MLA, ATTENTION_DSA, ATTENTION_COMPRESSED };
enum mlp_kind { MLP_DENSE, MLP_MOE };
struct layer_kind {
    uint8_t attention; /* enum attention_kind */
    uint8_t mlp;       /* enum mlp_kind */
    bool is_mtp;
    bool shares_index; /* DSA: no indexer; the tokens that the last one before it chose */
    bool hashes;       /* MoE: the token's id alone chooses the experts */
    bool has_engram;   /* n-grams of token ids are looked up before attention */
    /* COMPRESSED: tokens that an entry stands for; 0: the layer has only its window. */
    uint16_t ratio;
    /* The layers that make the entries it attends to and the choice of entries: itself if it makes
     * its own, LAYER_NONE without. */
    uint16_t entry_source, index_source;
};
#define ROPE_DIM_MAX 512
#define LAYER_NONE UINT16_MAX
#define ENGRAM_LAYERS_MAX 8
#define ENGRAM_NGRAM_MAX 8
#define ENGRAM_ROWS_MAX 128 /* that a position looks up in a table */

/* How a checkpoint stores routed experts: as its other linears, or in four bits and groups of
 * channels (enum weight_type of compute/kernels/matmul.h). */
enum expert_form { EXPERTS_PLAIN, EXPERTS_INT4_32, EXPERTS_INT4_128, EXPERTS_MXFP4 };

/* Epsilon of the norms of latents (q_a, kv_a) in all published models, whatever rms_norm_eps is. */
#define LATENT_EPSILON 1e-6f

struct shape {
    enum architecture architecture;
    struct layer_kind layer_kinds[LIMIT_LAYERS]; /* [layers + mtp_layers] */
    uint32_t vocab, hidden, layers;
    uint32_t dense_width;    /* intermediate_size */
    uint32_t expert_width;   /* moe_intermediate_size */
    uint32_t experts;        /* n_routed_experts; 0: no MoE layer at all */
    uint32_t shared_experts; /* one MLP of shared_experts * expert_width */
    uint32_t experts_per_token;
    uint32_t groups, groups_kept; /* n_group, topk_group; both 1 without a group stage */
    enum router_scoring scoring;
    enum router_method method;
    bool normalize_weights; /* norm_topk_prob */
    float routed_scaling;   /* 1 where the architecture does not scale (shape.c) */
    uint32_t heads, q_rank /* 0: q_proj */, kv_rank, nope_dim, rope_dim, value_dim;
    /* The indexer of DSA layers: heads, width of a head and of a key, and the number of keys that a
     * token attends to; 0 without such layers. */
    uint32_t index_heads, index_dim, index_top_k;
    bool index_rope_interleaved;
    /* COMPRESSED layers: the width of a head is nope_dim + rope_dim, and kv_rank and value_dim
     * follow from it. */
    uint32_t window;                     /* tokens of the window, its own included */
    uint32_t output_groups, output_rank; /* of the output projection */
    bool overlaps;         /* entries of ratio 4 also weigh the group before theirs (V4) */
    bool normalizes_heads; /* a norm without weights for each head's query (V4) */
    float swiglu_limit;    /* of gate and up of all experts; INFINITY: none */
    /* The residual streams of a token; 1: x alone. hyper_connections.h has the formulas. */
    uint32_t streams, stream_rounds;
    float stream_epsilon;
    bool streams_delayed; /* a site reads the streams by the weights of the site before (V4.1) */
    /* The second level of an index: from this layer on, choices are limited to the entries of its
     * best blocks. LAYER_NONE: no such layer. */
    uint32_t candidate_layer, candidate_blocks, candidate_block;
    /* Engram (V4.1): its layers, rows of each one's table, largest n-gram, heads, width of a row,
     * the least prime, and folded ids. 0 layers: none. compute/weights/engram_hash.h has the
     * formulas. */
    uint32_t engram_layers, engram_layer[ENGRAM_LAYERS_MAX], engram_table_rows[ENGRAM_LAYERS_MAX];
    uint32_t engram_ngram, engram_heads, engram_dim, engram_vocab, engram_folded, engram_pad;
    float rms_epsilon;    /* of all norms but those of latents */
    bool tied_head;       /* tie_word_embeddings: lm_head is embed_tokens */
    uint32_t mtp_layers;  /* num_nextn_predict_layers; the k-th is layer `layers` + k */
    uint32_t context_max; /* max_position_embeddings */
    /* RoPE: rope_frequency[i] for pair i, YaRN applied; formulas in shape.c. */
    bool rope_interleaved;
    bool yarn;
    float rope_theta, yarn_factor, yarn_mscale, yarn_mscale_all_dim;
    uint32_t yarn_original_context;
    float yarn_beta_fast, yarn_beta_slow;
    float rope_frequency[ROPE_DIM_MAX / 2]; /* [rope_dim / 2] */
    /* of COMPRESSED layers with entries; those without have rope_frequency and no YaRN */
    float compressed_frequency[ROPE_DIM_MAX / 2];
    float rope_amplitude;  /* multiplies cos and sin */
    float attention_scale; /* (nope+rope)^-0.5, times YaRN's m^2 */
    /* Quantization: FP8 E4M3 blocks of 128x128, routed experts in four bits, or none. */
    bool fp8;
    uint32_t fp8_block;          /* rows and columns of FP8's blocks: 128, or 32 */
    bool activation_scale_ue8m0; /* quantization_config.scale_fmt == "ue8m0" (V3.1) */
    enum expert_form expert_form;
    uint32_t bos_token;   /* UINT32_MAX: none in the vocabulary */
    uint32_t image_token; /* stands for an image's patch in prompts of V4.1; 0: none */
    /* eos_token_id of config.json, and of generation_config.json if there is one */
    uint32_t eos_tokens[LIMIT_STOP_TOKENS], eos_token_count;
};

/* Width of a row of the latent KV cache: the normalized latent, then the rotated shared key. */
static inline uint32_t shape_kv_width(const struct shape *shape) {
    return shape->kv_rank + shape->rope_dim;
}
static inline uint32_t shape_query_dim(const struct shape *shape) {
    return shape->nope_dim + shape->rope_dim;
}
/* One past the largest KV index of a step, where memory depends on it. */
static inline uint32_t shape_positions_max(const struct shape *shape) {
    return shape->context_max + KV_BLOCK_TOKENS; /* drafts may exceed the context */
}
/* True if layers have an indexer. */
static inline bool shape_has_index(const struct shape *shape) {
    return shape->index_top_k > 0;
}
/* Rows that a position looks up in an Engram table. */
static inline uint32_t shape_engram_rows(const struct shape *shape) {
    return shape->engram_ngram ? (shape->engram_ngram - 1) * shape->engram_heads : 0;
}
/* The index of a layer's table; engram_layers: none. */
static inline uint32_t shape_engram_table(const struct shape *shape, uint32_t layer) {
    uint32_t table = 0;
    while (table < shape->engram_layers && shape->engram_layer[table] != layer)
        table++;
    return table;
}
/* True if layers keep windows and entries, and several streams. */
static inline bool shape_is_compressed(const struct shape *shape) {
    return shape->layer_kinds[0].attention == ATTENTION_COMPRESSED;
}
static inline bool shape_has_own_index(const struct shape *shape, uint32_t layer) {
    return shape_has_index(shape) && !shape->layer_kinds[layer].shares_index;
}
/* True for MoE layers; MTP layers (index >= layers) count too. */
static inline bool shape_layer_is_moe(const struct shape *shape, uint32_t layer) {
    return shape->layer_kinds[layer].mlp == MLP_MOE;
}

/* "DeepseekV3ForCausalLM" */
const char *shape_architecture_name(enum architecture architecture);

/* Parses config.json. Fails for an unknown architecture, RoPE type, scoring function, topk_method,
 * quantization method or block size, and for values out of range. The error names key, expected and
 * found in one line. `file` is only used in messages. */
enum status shape_parse(struct bytes json, const char *file, struct shape *shape_out,
                        struct error *error);

/* Adds a stop token unless it is there. Returns false if there are LIMIT_STOP_TOKENS others. */
bool shape_add_eos(struct shape *shape, uint32_t id);

/* Adds generation_config.json's eos_token_id to those of config.json. */
enum status shape_add_generation(struct bytes json, const char *file, struct shape *shape,
                                 struct error *error);
