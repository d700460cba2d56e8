/* SPDX-License-Identifier: Apache-2.0
 * The weights in the forms that kernels read: FP8 stays FP8, BF16 stays BF16, F32 and F16 become
 * F32. The embedding alone stays in the checkpoint's mapped file: a step reads only its tokens'
 * rows.
 *
 * Routed experts lie in slots of one fixed stride: gate, up and down with their scales at fixed
 * offsets, so that an expert moves by copying a slot. The placement says which experts a rank's
 * slots hold (compute/exchange/placement.h); only those are read. If experts differ in type among
 * themselves, here or elsewhere, all are kept as F32, so that all ranks agree.
 *
 * What is not a routed expert is the same on every rank. With a directory it lies in a file that
 * all ranks of the machine map and pack together; a rank's slots lie in a file of its own, and each
 * place there names the expert it holds. Both outlive the process: its successor maps what is
 * whole.
 *
 * On a device all lie as in the checkpoint, rows pitched for its kernels, the embedding too; there
 * are no files. A kv_b of FP8 may lie there in BF16, too.
 *
 * kv_b is kept as panels for the expanded attention form. The absorbed form multiplies by each
 * head's key half transposed, q' = W_k^T q, and by its value half, o = W_v u. The key halves are
 * kept once more, transposed; the value halves are views into kv_b's panels where a head's rows
 * start on an FP8 scale block (V3: always), else copies. A half is kept dequantized as F32 if its
 * rows straddle scale blocks, so that its scales cannot be cut out.
 */
#pragma once

#include "compute/exchange/placement.h"
#include "compute/weights/pack.h"
#include "compute/weights/weights_file.h"

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
    struct packed_matrix kv_b_bf16; /* the same, if weights_options ask for it; else no data */
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
    uint32_t first_slot;         /* the layer's first one among this rank's slots */
};

/* An MTP module: the block is layer `layers` of the checkpoint. */
struct mtp_weights {
    struct layer_weights block;
    float *embedding_norm, *hidden_norm, *head_norm; /* [hidden] enorm, hnorm, shared_head.norm */
    struct packed_matrix projection;                 /* eh_proj [hidden][2 * hidden] */
};

/* Where the matrices are in an expert's slot. */
struct expert_layout {
    struct mlp_weights matrices; /* data and scales are offsets from the slot's start */
    size_t slot_bytes;
    bool filled; /* types are known */
};

/* Where a slot's or spare's memory is; spares of a file get theirs when they are first needed. */
enum place_kind { PLACE_UNKNOWN, PLACE_IN_FILE, PLACE_PRIVATE };

/* Memory of this process alone, or a file that others map too. */
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
    struct packed_matrix head; /* [vocab][hidden] */
    const struct tensor *embedding;
    struct packed_matrix embedding_rows; /* on a device; else no data */
    struct expert_layout expert;
    char **slots;                   /* [slot_count] each slot's memory, slot_bytes */
    char **spares;                  /* [spare_count] as they were when loaded */
    uint32_t slot_count;            /* MoE layers * slots of this rank in each */
    struct packed_matrix *absorbed; /* [layers][2][heads] */
    struct weights_region common;   /* all but the routed experts: the same on all ranks */
    struct weights_region own;      /* [slot_count + spare_count][slot_bytes], in no order */
    uint8_t *places;                /* [slot_count + spare_count] enum place_kind */
    uint32_t spare_count;           /* room for experts on their way here */
    size_t bytes;                   /* of common and own, without spares */
    uint64_t read_bytes;            /* of the checkpoint, by this process */
    uint32_t damaged_parts;         /* parts that `verify` found, and that were packed anew */
    struct error notice;            /* not empty: why there is no file, though one was asked for */
    size_t mtp_bytes;               /* of the MTP layer, without its experts' slots */
};

struct weights_options {
    bool mtp;                          /* the first MTP layer too */
    const struct placement *placement; /* of routed experts; NULL: all, each in its own slot */
    uint32_t rank;                     /* the rank of the slots */
    uint64_t move_bytes;               /* for spare slots, as in struct model_options */
    uint32_t level;                    /* the kernels' level: part of a file's key */
    const char *directory;             /* of files (weights_file.h); NULL: none */
    uint32_t unit;         /* distinguishes files of slots: each has one user at a time */
    bool verify;           /* look through what is found in files */
    struct device *device; /* where weights lie; NULL: in the host's memory */
    bool kv_b_bf16;        /* there: a kv_b of FP8 once more, its values rounded to BF16 */
};

/* Loads everything; what is found in the directory's files is not read again. The checkpoint must
 * stay open. */
enum status weights_load(struct weights *weights, const struct checkpoint *checkpoint,
                         const struct weights_options *options, struct team *team,
                         const struct pack_progress *progress, struct error *error);
void weights_close(struct weights *weights);

/* Bytes that lie in files. */
uint64_t weights_mapped(const struct weights *weights);

/* The matrices of the expert in a slot. */
struct mlp_weights weights_expert(const struct weights *weights, uint32_t slot);

struct expert_place {
    uint32_t layer, expert;
    char *memory; /* [slot_bytes] */
};
/* Adds the jobs that pack an expert of the checkpoint into its place. */
enum status weights_list_expert(const struct weights *weights, const struct checkpoint *checkpoint,
                                struct expert_place place, struct pack_list *list,
                                struct error *error);

/* A slot's memory becomes another, which holds a packed expert; the old one is returned. */
char *weights_put_slot(struct weights *weights, uint32_t slot, char *memory) MUST_USE;

/* Where a slot's memory is among those of all slots and spares, which lie behind each other from
 * own.memory on. */
uint32_t weights_place(const struct weights *weights, uint32_t slot);

/* Memory of spare slot `spare`, before any has changed places with a slot. */
char *weights_spare(const struct weights *weights, uint32_t spare);
/* A slot's or spare's memory will be written to: a later process that maps the file finds it empty.
 * */
void weights_forget(struct weights *weights, char *memory);
/* A slot's or spare's memory holds this expert from now on, also for later processes that map the
 * file. `digest`: weights_file_digest of its slot_bytes. */
void weights_remember(struct weights *weights, const char *memory, uint32_t layer, uint32_t expert,
                      uint64_t digest);

/* Rows [first, first + count) of a matrix as a matrix; `first` is a multiple of 128. */
struct packed_matrix weights_row_view(const struct packed_matrix *whole, uint32_t first,
                                      uint32_t count);
