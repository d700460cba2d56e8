/* SPDX-License-Identifier: Apache-2.0
 * Inside of the model: what the stages of a forward pass share, and its flow. Only src/model
 * includes it. What is computed is compute.h's.
 *
 * A step's tokens stand in one row of internal indices: those of prompt rows first, then those of
 * generated rows, so that each attention form has one contiguous range. Stages are loops of the
 * team over tokens, over panels of weights, or over (run, heads); between two loops everything is
 * done. Every loop's items are independent, and within an item the order of additions is fixed, so
 * neither the batch nor the threads change a result.
 *
 * The residual stream is float32 in all activation modes; what linears round is in linear.h.
 */
#ifndef COMPUTE_MODEL_FORWARD_H
#define COMPUTE_MODEL_FORWARD_H

#include "compute/exchange/exchange.h"
#include "compute/exchange/freight.h"
#include "compute/model/kv_pages.h"
#include "compute/model/linear.h"
#include "compute/model/router.h"
#include "compute/weights/weights.h"
#include "compute/model/wire.h"

/* Consecutive tokens of one sequence. */
struct run {
    uint32_t plan_row;
    uint32_t first; /* internal index of the first token */
    uint32_t token_count;
    uint32_t first_position;
    uint32_t kv_shift; /* KV row of position p is p + kv_shift: 0, in MTP layers 1 */
    const struct page_id *pages;
};

struct batch {
    uint32_t token_count, prompt_tokens; /* prompt form: internal indices 0..prompt_tokens-1 */
    uint32_t run_count, prompt_runs;
    struct run *runs;     /* [run_count] */
    uint32_t *token_ids;  /* [token_count] */
    uint32_t *positions;  /* [token_count] */
    uint32_t *token_run;  /* [token_count] run it belongs to */
    float *angles;        /* [token_count][rope_dim]: cos of each pair, then sin of each pair */
    const float **hidden; /* [token_count] of an MTP layer: h of each position, [hidden] floats */
};

/* A thread's room for one attention item. */
struct attention_scratch {
    float *rows;                  /* [64][kv_width] a block's latents and keys */
    struct input_buffer prepared; /* [64] rows of kv_b's input */
    float *expanded;              /* [64][expanded_stride] keys and values of a head group */
    float *keys;                  /* [nope + rope][64] transposed keys, or [64][heads] scores */
    float *queries;               /* [kv_width][heads] transposed queries of the absorbed form */
    float *scores;                /* [max(tile, heads)][64] */
};

/* Everything a step writes to; sized at model_open for step_tokens_max tokens. */
struct scratch {
    struct batch batch;
    struct run *lane_runs[OVERLAP_LANES];    /* [rows + 1] */
    uint32_t *lane_token_run[OVERLAP_LANES]; /* [tokens] */
    struct batch mtp_rows;  /* MTP positions of which only the KV rows are computed */
    struct batch mtp_batch; /* ... and those that run through the whole block */
    float *x;               /* [tokens][hidden] residual stream */
    float *normed;          /* [tokens][hidden] */
    struct input_buffer input, input_shared; /* [tokens] prepared inputs */
    float *q_a;                              /* [tokens][q_a_stride] */
    float *q;                                /* [tokens][q_stride] */
    float *kv_a;                             /* [tokens][kv_a_stride] */
    float *attended;                         /* [tokens][heads * value_dim] */
    float *softmax_max, *softmax_sum;        /* [tokens][heads] */
    float *y;         /* [tokens][hidden_stride] a stage's result before it is added to x */
    float *shared_y;  /* [tokens][hidden_stride] the shared expert's result */
    float *gate, *up; /* [tokens][mlp_stride] */
    float *mtp_pair;  /* [tokens][2 * hidden] MTP: embedding, then hidden, each normalized */
    float *mtp_u;     /* [tokens][hidden_stride] MTP: the projected pair */
    float *hidden;    /* [tokens][hidden] MTP: the main model's output after the final norm */
    /* absorbed form, a tile of generated tokens at a time */
    uint32_t absorb_tile;
    float *absorb_q; /* [tile][heads][absorb_q_stride]: q' then the rope part */
    float *absorb_u; /* [tile][heads][absorb_u_stride]: weighted sum of latents */
    float *absorb_o; /* [tile][heads][value_stride] */
    /* experts */
    float *router_logits;                            /* [tokens][experts_stride] */
    uint32_t *experts;                               /* [tokens][experts_per_token] ascending */
    float *expert_weights;                           /* [tokens][experts_per_token] */
    uint32_t *returned_count;                        /* [tokens] results already summed */
    uint32_t wave_rows;                              /* (token, expert) pairs computed at a time */
    struct input_buffer expert_input, expert_middle; /* [wave_rows] */
    float *expert_gate, *expert_up;                  /* [wave_rows][expert_stride] */
    float *expert_y;                                 /* [wave_rows][hidden_stride] */
    char *outgoing;      /* [tokens][wire_bytes] activations, where they are carried */
    float *returning;    /* [threads][hidden_stride] a result that came back */
    float *logits;       /* [LOGITS_TILE][vocab_stride] */
    struct matmul *jobs; /* [LINEAR_JOBS_MAX] */
    struct attention_scratch *attention; /* [threads] */
    uint32_t q_a_stride, q_stride, kv_a_stride, hidden_stride, mlp_stride;
    uint32_t absorb_q_stride, absorb_u_stride, value_stride, experts_stride, expert_stride;
    uint32_t expanded_stride, vocab_stride;
    uint32_t group_heads; /* heads expanded together: their kv_b rows start on a scale block */
    void *memory;
    size_t bytes;
};

#define LOGITS_TILE 16    /* rows of logits computed at a time */
#define ATTENTION_TILE 64 /* queries that share one product with a block's keys */

/* What speculation keeps from step to step, and what it did in the last one; compute/model/draft.c. */
struct draft {
    struct model_draft *made; /* [rows] of the last step */
    uint32_t *guesses;        /* [tokens] scratch */
    uint32_t slot_count;
    struct draft_kept *kept; /* [slots] */
    float *hidden;           /* [slots][1 + LIMIT_DRAFTS][hidden] */
};

/* A micro-batch of the step: consecutive tokens of scratch.batch. */
struct lane {
    uint32_t first;         /* token of the step */
    struct batch batch;     /* its tokens counted from 0 */
    struct scratch scratch; /* the step's, from the lane's first token on */
    struct exchange *exchange;
};

/* A move, and this rank's part of it. */
struct moving {
    struct expert_move move;
    uint32_t role;
    char *memory; /* where the expert comes to lie, if here; else NULL */
};

/* Experts on their way to new slots; see move.c. */
struct moves {
    struct freight *freight; /* NULL: none ever move */
    char **spares; /* [spare_max], of which there are spare_count: room for an expert each */
    uint32_t spare_count, spare_max;
    struct moving *list;
    uint32_t count;                  /* 0: none are under way */
    uint32_t giving, taking, making; /* index of the one under way, or to look at next */
    bool gives, takes;               /* one is under way */
    size_t made;                     /* bytes of the one that is being made here */
    struct pack_list pack;           /* of the one that is read from the checkpoint */
    struct pack_run packing;
    uint32_t packed;        /* its jobs that are done */
    bool reads;             /* one is being read */
    struct freight_sum sum; /* ... and their checksum */
    struct model_moving told;
};

struct model {
    struct checkpoint *checkpoint;
    const struct shape *shape;
    const struct kernels *kernels;
    struct team *team;
    enum activations activations;
    bool rounds_bf16; /* bf16 and fp8: attention works on BF16 values */
    uint32_t step_tokens_max, step_rows_max;
    uint32_t scratch_tokens; /* a step's, and with MTP the positions that drafts left behind */
    struct weights weights;
    struct kv_pages kv;
    uint32_t rank;
    struct placement placement; /* no ranks: alone, each expert in its own slot */
    enum wire_form dispatch_form, combine_form;
    struct scratch scratch;
    struct lane lanes[OVERLAP_LANES];
    uint32_t lane_count; /* of the last step's schedule */
    struct exchange_link link;
    const struct model_trace *trace;
    struct model_follower follower; /* written: NULL if nobody follows */
    struct draft draft;
    struct moves moves;
    uint64_t tokens;       /* of all steps' rows */
    uint32_t *slot_tokens; /* [weights.slot_count] tokens computed since they were last taken */
    char numerics_id[32];
    uint8_t identity[32];
};

/* One layer's run over a batch. */
struct pass {
    struct model *model;
    struct scratch *scratch; /* where this batch's stages work */
    struct exchange *exchange;
    const struct batch *batch;
    const struct layer_weights *layer;
    uint32_t slice; /* of the KV blocks */
};

enum status scratch_open(struct scratch *scratch, const struct model *model, struct error *error);
void scratch_close(struct scratch *scratch);
/* The same room from a token on; owns nothing. */
struct scratch scratch_from(const struct scratch *scratch, const struct model *model,
                            uint32_t token);

/* What was done since the stage's last part, or its begin, was this. */
static inline void forward_part(const struct pass *pass, enum stage_part part) {
    const struct model_trace *trace = pass->model->trace;
    if (trace && trace->part) trace->part(trace->context, part);
}

/* NULL if the row has none. */
const struct run *forward_run_of_row(const struct batch *batch, uint32_t plan_row);

/* Beginning, end, and some of what is under way; `bytes` of memory for experts on their way. */
enum status moves_open(struct model *model, uint64_t bytes, struct error *error);
void moves_close(struct model *model);
void moves_progress(struct model *model);

/* Lets all lanes' communication, and experts on their way, move on. */
void forward_progress(struct model *model);

/* The plan's KV rows are written in so many slices. */
void forward_tell(const struct model *model, const struct step_plan *plan, uint32_t slices);

/* The step's layers, by its schedule; see contract/overlap.h. */
void stages_set_lanes(struct model *model, enum overlap_kind kind);
void stages_run(struct model *model, const struct step_plan *plan, const struct model_probe *probe);
/* One layer alone, without lanes. */
void stages_run_layer(const struct pass *pass);

/* MTP: writes the KV rows of scratch.mtp_rows, then, unless argmax_out is NULL, runs
 * scratch.mtp_batch, whose token_ids are t[i+1] at position i, and leaves each position's largest
 * logit's id in argmax_out. Among ranks all run it, or none. */
void mtp_run(struct model *model, uint32_t *argmax_out);

enum status draft_open(struct draft *draft, const struct model *model, uint32_t slots,
                       struct error *error);
void draft_close(struct draft *draft);
/* Before the main pass: guesses for the rows that may have drafts, into draft.made. */
void draft_make(struct model *model, const struct step_plan *plan);
/* After it, with scratch.hidden filled in: the other rows' MTP KV rows; keeps what the next rows
 * need. */
void draft_follow(struct model *model, const struct step_plan *plan);
/* The whole MTP block at every position of a run; the last one's next token is `next_token`.
 * NULL: no token of ours, but take part. */
void draft_probe(struct model *model, const struct run *run, uint32_t next_token,
                 uint32_t *argmax_out);

/* Angles of the batch's positions. */
void rope_prepare(const struct shape *shape, struct batch *batch);

/* Checks a plan against the model's limits. */
enum status plan_check(const struct model *model, const struct step_plan *plan,
                       struct error *error);
/* Fills scratch.batch with a checked plan's tokens, and the drafts made behind theirs, and says
 * where its lanes begin. */
void plan_line_up(struct model *model, const struct step_plan *plan);

#endif
