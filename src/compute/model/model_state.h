/* SPDX-License-Identifier: Apache-2.0
 * The state of a loaded model, private to this room. Each part is opened, changed and closed by the
 * file of the same name. model.c opens and closes them all.
 */
#pragma once

#include "compute/exchange/exchange.h"
#include "compute/kernels/kernels.h"
#include "compute/kernels/team.h"
#include "compute/model/activations.h"
#include "compute/model/batch.h"
#include "compute/model/compressed_rows.h"
#include "compute/model/exchange_rows.h"
#include "compute/model/kv_pages.h"
#include "compute/model/listeners.h"
#include "compute/model/sequence_state.h"
#include "compute/weights/engram_fold.h"
#include "compute/weights/engram_hash.h"
#include "compute/weights/weights.h"

struct compute;   /* compute/model/compute.h */
struct device;    /* compute/device/device.h */
struct gpu_state; /* compute/gpu/gpu_state.h */
struct scratch;   /* the values of a batch (compute/model/compute.h) */
struct drafts;    /* compute/model/draft.h */
struct moves;     /* compute/model/moves.h */

/* A micro-batch of the step: consecutive tokens of its batch. */
struct micro_batch {
    uint32_t first;          /* its first token in the step */
    struct batch batch;      /* the micro-batch's tokens, counted from 0 */
    struct scratch *scratch; /* the micro-batch's values */
    struct exchange *exchange;
};

struct model {
    struct checkpoint *checkpoint;
    const struct shape *shape;
    const struct compute *compute; /* computes a step's values */
    const struct kernels *kernels;
    struct device *device; /* computes the model; NULL: the CPU does */
    const struct gpu_kernels *device_kernels;
    struct gpu_state *gpu; /* the model's state on the device */
    struct team *team;
    enum activations activations;
    uint32_t group_experts; /* consecutive experts per group of the expert sum; 0: no groups */
    bool rounds_bf16;       /* bf16 and fp8 modes: attention rounds its values to BF16 */
    bool kv_b_bf16;         /* the device's kernels need an FP8 kv_b in BF16, too */
    bool bf16_attention;    /* attention also multiplies in BF16: kernels.gemm_bf16 */
    uint32_t step_tokens_max, step_rows_max;
    uint32_t scratch_tokens; /* of a step; with MTP also positions kept from earlier steps */
    uint32_t slots_max;      /* with MTP, slots of rows are below this */
    struct weights weights;
    struct kv_pages kv;
    /* V4: where a page has its rows, and what sequences keep besides pages. */
    struct compressed_rows compressed;
    struct sequence_state state;
    bool kv_rounding;
    struct engram_fold engram_fold; /* V4.1 */
    struct engram_hash engram_hash;
    uint32_t rank;
    struct placement placement; /* 0 ranks: a single rank, each expert in its own slot */
    enum row_mla_mode dispatch_form, combine_form;
    uint32_t dispatch_bytes, combine_bytes; /* of a dispatched row, and of a result */
    bool rows_by_host;                      /* model_options.rows_by_host */
    bool fixed_order; /* all ranks run micro-batches' stages in the same order at all times */
    struct scratch *scratch;
    struct batch batch;     /* the step's */
    struct batch mtp_rows;  /* MTP positions that only need their KV rows */
    struct batch mtp_batch; /* MTP positions that run through the whole block */
    struct micro_batch micro_batches[OVERLAP_MICRO_BATCHES];
    uint32_t micro_batch_count;           /* of the last step's schedule */
    struct exchange_link link, node_link; /* to other nodes, or to all ranks; within this node */
    const struct model_trace *trace;
    struct model_draws draws;       /* only where compute.draw is not NULL */
    struct model_follower follower; /* `written` is NULL without a follower */
    struct model_guesser guesser;   /* `guess` is NULL: the MTP layer's drafts are used */
    struct drafts *drafts;          /* NULL without MTP */
    struct moves *moves;            /* NULL: no expert ever moves */
    uint64_t tokens;                /* of all steps so far */
    uint32_t *slot_tokens;          /* [weights.slot_count] tokens since model_take_tokens */
    char numerics_id[32];
    uint8_t identity[32];
};
