/* SPDX-License-Identifier: Apache-2.0
 * A model's weights in the layouts that kernels read: FP8 stays FP8, BF16 stays BF16, F32 and F16
 * become F32. Only the embedding stays in the checkpoint's mapped file, as a step reads only its
 * tokens' rows.
 *
 * Routed experts are in slots of one fixed size, with gate, up, down and their scales at offsets
 * that are the same for all experts of a layer. Copying a slot thus moves an expert. The placement
 * assigns experts to a rank's slots (compute/exchange/placement.h), and only those are read. If not
 * all experts of a layer have the same type, they are stored as F32, so that all ranks agree; so
 * are those of all layers if FP8, INT4 or MXFP4 is one of several types, as inputs have one form.
 *
 * Other weights are the same on every rank. With a directory they are in one file, which all ranks
 * of the machine map and pack together. A rank's slots are in a separate file, which names the
 * expert at each place. Both files outlive the process, and its successor maps their complete
 * parts.
 *
 * On a device, all weights including the embedding have the checkpoint's layout, with rows pitched
 * for the kernels. There are no files. An FP8 kv_b may have a copy in BF16.
 *
 * kv_b is stored as panels for the expanded attention form. The absorbed form multiplies by each
 * head's transposed key half, q' = W_k^T q, and by its value half, o = W_v u. The key halves have a
 * second, transposed copy. The value halves are views into kv_b's panels if a head's rows start on
 * an FP8 scale block (V3: always), else copies. A half with rows that straddle scale blocks is
 * stored dequantized as F32, because its scales cannot be separated. A kv_b in two parts (GGUF) has
 * both halves as they are needed here; kv_b itself becomes floats.
 */
#pragma once

#include "compute/exchange/placement.h"
#include "compute/weights/pack.h"
#include "compute/weights/weights_file.h"

#define WEIGHTS_ALIGN 64 /* of each matrix, in bytes */

struct mlp_weights {
    struct packed_matrix gate, up, down;
};

/* One of the places where the streams are read and written (compute/model/hyper_connections.h). */
struct stream_weights {
    struct packed_matrix fn; /* [streams * (2 + streams)][streams * hidden]; before the head
                              * [streams][streams * hidden] */
    float *base;             /* [fn.rows] */
    float *scale;            /* [3], or [1] */
};

/* A compressor (compute/model/compressor.h). */
struct pool_weights {
    struct packed_matrix value, gate; /* [halves * width][hidden]; V4.1 at ratio 1: no gate */
    float *positions;                 /* [ratio][halves * width]; NULL: none */
    float *norm;                      /* [width] */
};

struct attention_weights {
    float *norm;                    /* [hidden] input_layernorm */
    struct packed_matrix q;         /* q_proj if q_rank is 0 */
    struct packed_matrix q_a;       /* [q_rank][hidden] */
    float *q_a_norm;                /* [q_rank] */
    struct packed_matrix q_b;       /* [heads * (nope + rope)][q_rank] */
    struct packed_matrix kv_a;      /* [kv_rank + rope][hidden] */
    float *kv_a_norm;               /* [kv_rank] */
    struct packed_matrix kv_b;      /* [heads * (nope + value)][kv_rank] */
    struct packed_matrix kv_b_bf16; /* the same with weights_options.kv_b_bf16; else no data */
    struct packed_matrix o;         /* [hidden][heads * value] */
    struct packed_matrix *absorb_k; /* [heads], each [kv_rank][nope] */
    struct packed_matrix *absorb_v; /* [heads], each [value][kv_rank] */
    /* The indexer of a DSA layer: */
    struct packed_matrix index_q;       /* [index_heads * index_dim][q_rank] wq_b */
    struct packed_matrix index_k;       /* [index_dim][hidden] wk */
    float *index_k_norm, *index_k_bias; /* [index_dim] LayerNorm of the keys */
    struct packed_matrix index_weights; /* [index_heads][hidden] weights_proj */
    /* A COMPRESSED layer: kv_a is [kv_width][hidden] wkv, o is wo_b, and also: */
    struct stream_weights streams;
    float *sink;                         /* [heads] */
    struct packed_matrix *output_groups; /* [output_groups], each [output_rank][heads of the group *
                                          * value], rows of wo_a, never FP8 */
    struct pool_weights pool, index_pool;
};

/* V4.1's n-grams (compute/model/engram.h). */
struct engram_weights {
    const struct tensor *table, *scales; /* in the checkpoint's mapped file; NULL: none */
    struct packed_matrix kv;             /* [(streams + 1) * hidden][rows * engram_dim] */
    float *q_norm, *k_norm;              /* [streams][hidden] */
};

struct layer_weights {
    struct engram_weights engram;
    struct attention_weights attention;
    float *mlp_norm; /* [hidden] post_attention_layernorm */
    bool is_moe;
    struct mlp_weights dense;
    struct packed_matrix router; /* [experts][hidden] */
    float *router_bias;          /* [experts] or NULL */
    float *router_hash;          /* [vocab][experts_per_token] ids of experts, or NULL */
    struct stream_weights mlp_streams;
    struct mlp_weights shared; /* no data if there are no shared experts */
    uint32_t first_slot;       /* index of the layer's first slot on this rank */
};

/* An MTP module. Its block is layer `layers` of the checkpoint. */
struct mtp_weights {
    struct layer_weights block;
    float *embedding_norm, *hidden_norm, *head_norm; /* [hidden] enorm, hnorm, shared_head.norm */
    struct packed_matrix projection;                 /* eh_proj [hidden][2 * hidden] */
    /* V4 instead of it: e_proj, h_proj [hidden][hidden] */
    struct packed_matrix embedding_projection, hidden_projection;
    struct stream_weights head_streams;
};

/* The offsets of the matrices in an expert's slot. */
struct expert_layout {
    struct mlp_weights matrices; /* data and scales are offsets from the slot's start */
    size_t slot_bytes;           /* the same for all layers */
    bool filled;                 /* types are known; false for layers without experts */
};

/* The memory of a slot or spare. Spares in a file are allocated when they are first needed. */
enum place_kind { PLACE_UNKNOWN, PLACE_IN_FILE, PLACE_PRIVATE };

/* Private memory, or a file that other processes map, too. */
struct weights_region {
    char *memory;
    size_t bytes;
    bool in_file;
    struct weights_file file;
    struct device *device; /* owner of the memory; NULL: the host */
};

struct weights {
    struct layer_weights *layers; /* [shape->layers] */
    struct mtp_weights *mtp;      /* NULL without MTP */
    float *final_norm;
    struct stream_weights head_streams; /* V4 */
    struct packed_matrix head;          /* [vocab][hidden] */
    const struct tensor *embedding;
    struct packed_matrix embedding_rows; /* on a device; else no data */
    struct expert_layout expert;         /* of the first layer with experts */
    struct expert_layout *expert_layers; /* [shape->layers + 1] of each layer */
    uint32_t *slot_layers;               /* [slot_count] */
    char **slots;                        /* [slot_count] each slot's memory, slot_bytes */
    char **spares;                       /* [spare_count] as of loading */
    uint32_t slot_count;                 /* MoE layers * slots of this rank in each */
    struct packed_matrix *absorbed;      /* [layers][2][heads] */
    struct weights_region common;        /* all but the routed experts: the same on all ranks */
    struct weights_region own;           /* [slot_count + spare_count][slot_bytes], in no order */
    uint8_t *places;                     /* [slot_count + spare_count] enum place_kind */
    uint32_t spare_count;                /* spare slots for experts that move here */
    size_t bytes;                        /* of common and own, without spares */
    uint64_t read_bytes;                 /* read from the checkpoint by this process */
    uint32_t damaged_parts;              /* parts that failed `verify` and were packed again */
    struct error notice;                 /* not empty: why there is no file despite `directory` */
    size_t mtp_bytes;                    /* of the MTP layer without its experts */
};

struct weights_options {
    bool mtp;                          /* also load the first MTP layer */
    const struct placement *placement; /* of routed experts; NULL: all, each in its own slot */
    uint32_t rank;                     /* the rank of the slots */
    uint64_t move_bytes;               /* for spare slots, as in struct model_options */
    uint32_t level;                    /* the kernels' level: part of a file's key */
    const char *directory;             /* of files (weights_file.h); NULL: none */
    uint32_t unit;         /* distinguishes files of slots, which have one user at a time */
    bool verify;           /* verify the digests of parts found in files */
    struct device *device; /* holds the weights; NULL: host memory */
    bool kv_b_bf16;        /* on a device: also store an FP8 kv_b rounded to BF16 */
};

/* Loads all weights. Parts found in the directory's files are not read again. The checkpoint must
 * stay open. */
enum status weights_load(struct weights *weights, const struct checkpoint *checkpoint,
                         const struct weights_options *options, struct team *team,
                         const struct load_progress *progress, struct error *error);
void weights_close(struct weights *weights);

/* Bytes of weights in files. */
uint64_t weights_mapped(const struct weights *weights);

/* Computes the offsets in slots from the matrices' types and sizes, given those of each layer's
 * experts. Returns the layout of the first layer with experts. */
struct expert_layout weights_lay_out_slots(struct expert_layout *layers, uint32_t count,
                                           bool on_device);
/* Adds an expert's matrix to what is known of its layer: part 0 is gate, 1 up, 2 down. */
void weights_add_expert(struct expert_layout *layout, uint32_t part,
                        const struct packed_matrix *matrix);

/* The type in memory of rows [first, first + count) of a matrix that are stored apart. They stay
 * FP8 if they share a scale block, and types of blocks unless they are transposed. */
enum weight_type weights_rows_type(enum weight_type type, uint32_t first, uint32_t count,
                                   bool transposed);

/* The matrices of the expert in a slot. */
struct mlp_weights weights_expert(const struct weights *weights, uint32_t slot);

struct expert_place {
    uint32_t layer, expert;
    char *memory; /* [slot_bytes] */
};
/* Adds the jobs that pack an expert of the checkpoint into a slot's memory. */
enum status weights_list_expert(const struct weights *weights, const struct checkpoint *checkpoint,
                                struct expert_place place, struct pack_list *list,
                                struct error *error);

/* Replaces a slot's memory by `memory`, which holds a packed expert. Returns the old memory. */
char *weights_put_slot(struct weights *weights, uint32_t slot, char *memory) MUST_USE;

/* The index of a slot's memory in own.memory, which has those of all slots and spares. */
uint32_t weights_place(const struct weights *weights, uint32_t slot);

/* The memory of spare slot `spare` as of loading, before any was exchanged with a slot. */
char *weights_spare(const struct weights *weights, uint32_t spare);
/* Call it before writing to a slot's or spare's memory. Marks the place as empty in the file. */
void weights_forget(struct weights *weights, char *memory);
/* Records in the file that a slot's or spare's memory holds this expert, for later processes.
 * `digest`: weights_file_digest of its slot_bytes. */
void weights_remember(struct weights *weights, const char *memory, uint32_t layer, uint32_t expert,
                      uint64_t digest);

/* A view of rows [first, first + count) of a matrix. `first` is a multiple of 128. */
struct packed_matrix weights_row_view(const struct packed_matrix *whole, uint32_t first,
                                      uint32_t count);
