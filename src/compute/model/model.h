/* SPDX-License-Identifier: Apache-2.0
 * A loaded model: the compute plane's door. Turns step plans into logits. Owns packed weights, KV
 * pages and scratch; never decides who runs next. One caller at a time.
 */
#ifndef COMPUTE_MODEL_MODEL_H
#define COMPUTE_MODEL_MODEL_H

#include "contract/expert_move.h"
#include "contract/stage_part.h"
#include "contract/step_plan.h"
#include "compute/exchange/exchange.h"
#include "compute/kernels/kernels.h"
#include "compute/weights/shape.h"

enum activations {
    ACTIVATIONS_F32,
    ACTIVATIONS_BF16,
    ACTIVATIONS_FP8,
    ACTIVATIONS_FP8_F32,
    ACTIVATIONS_COUNT
};

/* "f32", "bf16", "fp8", "fp8-f32" */
enum status activations_named(const char *name, enum activations *out, struct error *error);
const char *activations_name(enum activations activations);

/* Told of each stage of the step's layers as it runs; see contract/overlap.h. */
struct model_trace {
    void *context;
    void (*begin)(void *context);
    /* `ended`: the transfer that the stage waited for, or NULL. */
    void (*end)(void *context, enum stage stage, uint32_t lane, uint32_t layer,
                const struct exchange_transfer *ended);
    /* Since the last part, or the stage's begin, this was done; once for each tile or wave of it.
     * NULL: nobody wants to know. */
    void (*part)(void *context, enum stage_part part);
};

/* Told, by the thread that runs the step, how far the KV rows of its plan are written; and of the
 * tokens that its rows want scored (contract/step_plan.h). */
struct model_follower {
    void *context;
    /* Slices 0..slices-1 of all rows stand in their pages, for good: once for each count from 1 to
     * the blocks' slices, in order. Not for plans without rows. */
    void (*written)(void *context, uint64_t step, uint32_t slices);
    /* Returns when leading slices 0..slices-1 of what the slot's row waits for (`number`: struct
     * step_row's `loads`) stand in their pages, or it is not worth waiting. May be NULL where no
     * row waits. */
    void (*await)(void *context, uint32_t slot, uint32_t number, uint32_t slices);
    /* The logits that score the index'th of a row's scored tokens: [vocab], gone afterwards. In any
     * order, by several threads at the same time. May be NULL where no row has such tokens. */
    void (*score)(void *context, uint32_t row, uint32_t index, const float *logits);
};

struct checkpoint; /* compute/weights/checkpoint.h */

struct model_options {
    const char *directory;
    struct checkpoint *checkpoint; /* instead of what lies in `directory`; taken over, also when
                                    * opening fails. NULL: none */
    enum activations activations;
    enum kernel_level level;
    uint32_t threads;         /* 0: one per CPU */
    uint64_t kv_bytes;        /* memory for KV pages; rounded down to whole pages */
    uint32_t step_tokens_max; /* tokens in one step */
    uint32_t step_rows_max;
    bool mtp; /* load the MTP layer, if there is one, and keep its slice in each KV block */
    bool mtp_required;  /* ... and refuse a checkpoint that has none */
    uint32_t slots_max; /* with mtp: rows' slots are below; 0: step_rows_max */
    /* One rank of a job (compute/exchange/ranks.h): all ranks open the same model with the same options.
     * rank_count 0 or 1: alone, and the rest is ignored. */
    uint32_t rank, rank_count;
    uint32_t redundant_experts; /* slots beyond one per expert, at least, in each layer */
    uint64_t placement_seed;    /* not 0: experts' slots are shuffled */
    /* Or where they lie: for each MoE layer in order, the expert in each slot of all ranks, those
     * of a rank behind each other. NULL: spread evenly. Layers that are not there are, too. */
    const uint16_t *placement; /* [placement_layers][placement_slots] */
    uint32_t placement_layers, placement_slots;
    /* The other ranks are not there: this one's own tokens stand for theirs (exchange_open_echo).
     * To time one rank of many; what it computes means nothing. */
    bool echoes;
    uint32_t echo_rows;  /* (token, expert) pairs of a step at most, if more than its tokens' */
    uint64_t move_bytes; /* for experts on their way to new slots, on each rank: at least a layer's
                          * are taken; 0: none ever move */
    /* Packed weights lie in files there, which other processes of this machine map too and which
     * the next start maps instead of loading; NULL: in this process's own memory. */
    const char *weights_directory;
    uint32_t weights_unit;     /* tells models of one checkpoint apart that use one directory */
    bool weights_verify;       /* look through what is found there */
    double link_gbps, link_us; /* slows the link to other ranks down; 0: not */
    const struct model_trace *trace; /* NULL: nobody listens */
    /* Called now and then while weights load; may be NULL. */
    void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_context;
};

struct kv_pages; /* compute/model/kv_pages.h */
struct model;

#define MODEL_NO_ROW UINT32_MAX

enum status model_open(const struct model_options *options, struct model **model_out,
                       struct error *error);
void model_close(struct model *model);

/* From the next step on; see struct model_options. */
void model_set_link(struct model *model, double gbps, double us);

/* Between two steps; copied. NULL: nobody follows. */
void model_set_follower(struct model *model, const struct model_follower *follower);

/* A model that echoes, from the next step on: rows of each slot; 0: by even choices. */
void model_echo_rows(struct model *model, uint32_t slot_rows);

/* From the next step on: replicas of an expert are split for each batch by what all ranks' tokens
 * chose (compute/exchange/split_tokens), instead of taking turns. All ranks alike; only for schedules that
 * are walks (contract/overlap.h). */
void model_split_replicas(struct model *model, bool splits);

/* True if it was opened with `mtp` and the checkpoint has the layer. */
bool model_has_mtp(const struct model *model);
const struct shape *model_shape(const struct model *model);
uint32_t model_page_count(const struct model *model);
uint64_t model_page_bytes(const struct model *model); /* one KV block, header included */
/* For what moves blocks in and out of pages that no step uses meanwhile. */
struct kv_pages *model_kv_pages(struct model *model);
uint64_t model_weight_bytes(const struct model *model); /* packed */
/* Not empty: what there is to say about files of weights, in one line. */
const char *model_weights_notice(const struct model *model);
/* Bytes of weights that a step of `tokens` tokens reads, if experts are chosen evenly. */
double model_step_bytes(const struct model *model, uint32_t tokens);
/* ... and those that drafting behind `tokens` tokens reads on top: the MTP layer, and the head. */
double model_draft_bytes(const struct model *model, uint32_t tokens);
/* Short text: kernels' numerics, activations and version, e.g. "fma1.bf16.v1". Enters block keys.
 */
const char *model_numerics_id(const struct model *model);
/* 32 bytes that identify the checkpoint. */
const uint8_t *model_identity(const struct model *model);

/* What `fathom logits` may ask to see of one row's run; all pointers may be NULL. Among ranks, all
 * bring a probe if one asks for MTP's predictions. */
struct model_probe {
    uint32_t row; /* MODEL_NO_ROW: none of this plan, but take part in MTP if that is asked for */
    uint32_t *
        routing; /* [layers][experts_per_token] of the row's last token; dense layers: UINT32_MAX */
    uint32_t *mtp_argmax;    /* [row's token_count]: position i from h_i and token i+1; the last
                              * position    takes `mtp_next_token` */
    uint32_t mtp_next_token; /* UINT32_MAX: the greedy token of the last position's logits */
};

/* What a rank holds and has done since it was opened. */
struct model_rank {
    uint32_t rank, rank_count;
    uint32_t slots; /* of routed experts, in each MoE layer */
    uint64_t weight_bytes;
    uint64_t mapped_bytes;      /* of them, in files that outlive the process */
    uint64_t read_bytes;        /* of the checkpoint, when the model was opened */
    uint64_t tokens;            /* of the rows of this rank's own steps */
    uint64_t tokens_dispatched; /* tokens' activations that came to this rank's experts */
    uint64_t pairs;             /* (token, expert) pairs computed here */
    uint32_t slots_used;        /* of all layers, by a token since their counts were last taken */
    uint64_t bytes_sent;        /* to other ranks' experts, and results back */
    uint64_t experts_moved;     /* to slots of this rank, while steps ran */
    uint64_t bytes_moved;       /* of them, from other ranks or the checkpoint */
    int64_t transfer_ns;        /* begin to end of all such transfers, summed */
    int64_t waited_ns;          /* for their ends */
};
struct model_rank model_rank(const struct model *model);

/* What model_step would refuse a plan for; the same on all ranks. */
enum status model_check_plan(const struct model *model, const struct step_plan *plan,
                             struct error *error) MUST_USE;

/* Runs the plan: KV pages written, logits computed. `logits`: the rows' wanted logits behind each
 * other in plan order, each [vocab] floats, a row's drafts' behind its own; room for the sum of
 * logits_count and draft_count rows. Deterministic and batch invariant. STATUS_INVALID if the plan
 * breaks a rule (that is the caller's bug, but it may come from another process).
 *
 * A plan may have no rows: among ranks, all ranks step together, and a rank without tokens still
 * computes for the others (a plan that one rank refuses would leave the others waiting: see
 * model_check_plan). */
enum status model_step(struct model *model, const struct step_plan *plan, float *logits,
                       const struct model_probe *probe, struct error *error);

/* Experts change slots while steps run (compute/model/move.c). All ranks get the same moves between the
 * same two steps, and adopt them between the same two steps. */

/* What this rank has done of them. */
struct model_moving {
    uint32_t pending;                   /* moves that it gives or takes and that are not over */
    uint32_t failures;                  /* of those that were to come here */
    uint64_t failed[LIMIT_LAYERS / 64]; /* the layers of those, a bit each */
    uint64_t moves, bytes;              /* that came here since the model was opened */
    struct error error;                 /* the first failure's */
};

/* Moves that may come to one rank at once: at least a layer's slots; 0: none may. */
uint32_t model_spare_slots(const struct model *model);
uint64_t model_slot_bytes(const struct model *model);
const struct placement *model_placement(const struct model *model);
/* True if the layer has routed experts. */
bool model_layer_moves(const struct model *model, uint32_t layer);

/* None are under way. Moves of a layer stand together, and leave every expert a slot. */
void model_move_begin(struct model *model, const struct expert_move *list, uint32_t count,
                      uint64_t bytes_per_second /* 0: any */);
/* Does some of it; model_step does so too, on its way. */
void model_move_progress(struct model *model);
struct model_moving model_move_told(const struct model *model);
/* None is pending on any rank. The layers whose bit is set stay as they were. */
void model_move_adopt(struct model *model, const uint64_t *dropped /* [LIMIT_LAYERS / 64] */);
/* The next expert that comes is damaged on its way: to see that it is noticed. */
void model_move_damage(struct model *model);

/* Slots of this rank in all layers, and how many tokens each has computed since the last call:
 * tokens_out[model_slot_count], a layer's behind the layer before. */
uint32_t model_slot_count(const struct model *model);
void model_take_tokens(struct model *model, uint32_t *tokens_out);

struct model_draft {
    uint32_t count; /* made: at most the row's draft_count */
    uint32_t tokens[LIMIT_DRAFTS];
};
/* What the last step guessed behind a row of its plan. */
struct model_draft model_step_draft(const struct model *model, uint32_t row);

#endif
