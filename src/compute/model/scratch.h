/* SPDX-License-Identifier: Apache-2.0
 * Scratch memory of a step on the CPU, sized at model_open for model.scratch_tokens. Only the CPU's
 * functions (token_loop.h) include it.
 *
 * Values that are never live at the same time share memory. There are three kinds:
 *   a step's        live until the step ends
 *   a micro-batch's live from one of its stages to a later one, while stages of other micro-batches
 *                   run, so each token has its own memory. Attention and experts share it, as a
 *                   micro-batch is never in both
 *   a stage's       are dead when the stage returns. Stages run one at a time, and those of all
 *                   micro-batches begin at the same address
 */
#pragma once

#include "compute/model/linear.h"
#include "compute/model/model_state.h"

#define LOGITS_TILE 16    /* rows of logits computed at a time */
#define ATTENTION_TILE 64 /* queries that share one product with a chunk's keys */
#define INDEX_TILE 16     /* tokens that share one reading of an indexer's keys */
#define CHUNK_ROWS 128    /* rows that a strip of V4's heads attends to at once */
#define CORE_HEADS 32 /* heads of a generated token that share one product with a chunk's rows */

/* A thread's memory for one attention work item. `chunk`: the most rows of a chunk
 * (attention_core.h). */
struct attention_scratch {
    float *rows;                  /* [64][kv_width] a block's latents and keys */
    struct input_buffer prepared; /* [chunk] rows of kv_b's input */
    float *expanded;              /* [chunk][expanded_stride] keys and values of a head group */
    float *keys;    /* [nope + rope][keys_stride] transposed keys, or [chunk][CORE_HEADS] scores */
    float *queries; /* [kv_width][heads] transposed queries of the absorbed form */
    float *scores;  /* [max(ATTENTION_TILE, 2 * heads)][scores_stride] */
    char *head_queries;  /* [group_heads][tokens][query_dim] of a prompt, BF16 or floats */
    float *head_results; /* [group_heads][tokens][value_dim] */
    /* If attention computes in BF16 (model.bf16_attention): */
    uint16_t *kv_b;      /* [panels of a head group][kv_rank / 2][32][2] */
    uint16_t *nope_keys; /* [chunk][nope] of a head */
    uint16_t *values;    /* [chunk / 2][value][2] of a head, two rows interleaved */
    uint16_t *weights;   /* [max(ATTENTION_TILE, heads)][weights_stride] exponentials of scores */
    uint16_t *query;     /* [CORE_HEADS][kv_width] */
    uint16_t *gathered;  /* [chunk][kv_width] chosen rows */
    /* If layers have an indexer: */
    float *index_rows;     /* [64][index_dim] a block's keys */
    float *index_keys;     /* [index_dim][64] the same, transposed */
    float *index_products; /* [index_heads][64] */
    float *joined;         /* V4: [output_groups * output_rank] */
    size_t keys_stride, scores_stride, weights_stride;
};

struct scratch {
    /* A step's: */
    float *x;                  /* [tokens][streams][hidden] residual streams */
    float *angles;             /* [tokens][rope_dim] RoPE angles (rope.h) */
    struct input_buffer input; /* [tokens] prepared inputs */
    float *y;                  /* [tokens][hidden_stride] to be added to x */
    uint32_t *experts;         /* [tokens][experts_per_token] chosen, ascending */
    float *expert_weights;     /* [tokens][experts_per_token] */
    char *outgoing;            /* [tokens][exchange_rows_bytes] rows to dispatch */
    float *returning;          /* [threads][hidden_stride] a received result */
    float *group_room;         /* [threads][hidden_stride] expert_sum_add's, by groups */
    float *logits;             /* [LOGITS_TILE][vocab_stride] */
    float *mtp_u;              /* [tokens][hidden_stride] MTP: the projected pair */
    float *hidden;             /* [tokens][hidden] MTP: the step's outputs (keep_outputs) */
    float *kept;               /* [slots][1 + LIMIT_DRAFTS][hidden] MTP: outputs kept by slots */

    /* V4's, of a step: */
    float *stream_mixes;      /* [tokens][stream_mixes_stride] pre, post, C of the last site */
    float *compressed_angles; /* [tokens][rope_dim] of layers with entries */
    float *ones;              /* [kv_width] */
    uint32_t *chosen_count;   /* [tokens] entries in `chosen` */
    uint32_t *candidates, *candidate_count; /* [tokens][candidate_blocks], ascending; [tokens] */
    uint32_t *engram_ids; /* [tokens][engram_ngram] a token's folded id, and those before it */
    /* of a stage: */
    float *engram_out;      /* [tokens][engram_out_stride] a key for each stream, then the value */
    float *engram_room;     /* [threads][rows of a position * engram_dim] */
    float *stream_products; /* [tokens][stream_mixes_stride] fn . flat(S) */
    float *stream_room;     /* [threads][streams][hidden] */
    float *pool_value, *pool_gate;             /* [tokens][pool_stride] */
    float *index_pool_value, *index_pool_gate; /* [tokens][index_pool_stride] */
    float *block_scores;                       /* [INDEX_TILE][index_scores_stride] */
    struct input_buffer output_input;          /* [output_groups][tokens] */
    float *output_u;                           /* [tokens][output_groups][output_u_stride] */
    uint32_t stream_mixes_stride, pool_stride, index_pool_stride, output_u_stride;
    uint32_t engram_out_stride;

    /* A micro-batch's, [tokens][micro_batch_stride]; each array takes some of the columns.
     * Attention's: */
    float *q;         /* [heads * query_dim]; BF16 for prompt tokens if model.bf16_attention */
    float *attended;  /* [heads * value_dim] */
    uint32_t *chosen; /* [tokens][index_top_k] KV indices that the indexer chose, ascending */
    /* The experts', in the same columns as q and attended: */
    float *shared_gate, *shared_up;   /* [shared width] */
    float *shared_y;                  /* [hidden] the shared expert's result */
    struct input_buffer input_shared; /* [tokens] prepared inputs that differ from `input` */

    /* A stage's. Used by several stages: */
    float *normed;        /* [tokens][hidden] */
    float *q_a;           /* [tokens][q_a_stride] */
    float *kv_a;          /* [tokens][kv_a_stride] */
    float *router_logits; /* [tokens][experts_stride] */
    /* An indexer: */
    float *index_q;      /* [tokens][index_q_stride], of which [index_heads][index_dim] are used */
    float *index_k;      /* [tokens][index_k_stride] */
    float *index_w;      /* [tokens][index_w_stride] weights of the heads */
    float *index_scores; /* [INDEX_TILE][index_scores_stride] by KV index */
    size_t index_scores_stride;
    uint32_t index_q_stride, index_k_stride, index_w_stride;
    /* A dense layer: */
    float *gate, *up; /* [tokens][mlp_stride] */
    /* Core attention, a tile of generated tokens at a time in the absorbed form: */
    float *softmax_max, *softmax_sum; /* [tokens][heads] */
    uint32_t absorb_tile;
    float *absorb_q; /* [tile][heads][absorb_q_stride]: q' then the rope part */
    float *absorb_u; /* [tile][heads][absorb_u_stride]: weighted sum of latents */
    float *absorb_o; /* [tile][heads][value_stride] */
    /* Routed experts: */
    float *group_y;             /* [tokens][hidden_stride] single rank, by groups: a group's sum */
    uint32_t *returned_count;   /* [tokens] number of the token's results summed so far */
    uint32_t expert_batch_rows; /* (token, expert) pairs computed at a time */
    struct input_buffer expert_input, expert_intermediate; /* [expert_batch_rows] */
    float *expert_gate, *expert_up;                        /* [expert_batch_rows][expert_stride] */
    float *expert_y;                                       /* [expert_batch_rows][hidden_stride] */
    /* MTP's projection: */
    float *mtp_pair; /* [tokens][2 * hidden] embedding, then hidden, each normalized */

    struct matmul *jobs;                 /* [LINEAR_JOBS_MAX] */
    struct attention_scratch *attention; /* [threads] */
    uint32_t micro_batch_stride;
    uint32_t q_a_stride, kv_a_stride, hidden_stride, mlp_stride;
    uint32_t absorb_q_stride, absorb_u_stride, value_stride, experts_stride, expert_stride;
    uint32_t expanded_stride, vocab_stride;
    uint32_t group_heads; /* heads expanded together: their kv_b rows start on a scale block */
    char *stage;          /* start of the stage's values */
    size_t stage_bytes;
    void *memory;
    size_t bytes;
};

/* The size of the scratch. Uses shape, team, kernels, activations and limits of the model alone,
 * and whether it has an MTP layer. */
size_t scratch_bytes(const struct model *model);
enum status scratch_open(struct scratch *scratch, const struct model *model, struct error *error);
void scratch_close(struct scratch *scratch);
/* A view of the scratch for the micro-batch that begins with this token. It owns nothing. */
struct scratch scratch_from(const struct scratch *scratch, const struct model *model,
                            uint32_t token);
