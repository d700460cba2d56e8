/* SPDX-License-Identifier: Apache-2.0
 * What a loaded model consists of; for this room alone. Each part is opened, changed and closed by
 * the file that it is named after; model.c opens and closes them all.
 */
#pragma once

#include "compute/exchange/exchange.h"
#include "compute/kernels/kernels.h"
#include "compute/kernels/team.h"
#include "compute/model/activations.h"
#include "compute/model/batch.h"
#include "compute/model/exchange_rows.h"
#include "compute/model/kv_pages.h"
#include "compute/model/listeners.h"
#include "compute/weights/weights.h"

struct compute;   /* compute/model/compute.h */
struct device;    /* compute/device/device.h */
struct gpu_state; /* compute/gpu/gpu_state.h */
struct scratch;   /* where a batch's values are (compute/model/compute.h) */
struct drafts;    /* compute/model/draft.h */
struct moves;     /* compute/model/moves.h */

/* A micro-batch of the step: consecutive tokens of its batch. */
struct micro_batch {
    uint32_t first;          /* token of the step */
    struct batch batch;      /* the micro-batch's tokens, counted from 0 */
    struct scratch *scratch; /* where the micro-batch's values are */
    struct exchange *exchange;
};

struct model {
    struct checkpoint *checkpoint;
    const struct shape *shape;
    const struct compute *compute; /* what calculates a step's values */
    const struct kernels *kernels;
    struct device *device; /* that computes; NULL: the CPU */
    const struct gpu_kernels *device_kernels;
    struct gpu_state *gpu; /* what stands on it */
    struct team *team;
    enum activations activations;
    uint32_t group_experts; /* so many experts in a row are a group of the sum; 0: it has none */
    bool rounds_bf16;       /* bf16 and fp8: attention works on BF16 values */
    bool kv_b_bf16;         /* the device's kernels want a kv_b of FP8 in BF16, too */
    bool bf16_attention;    /* attention also multiplies them as such: kernels.gemm_bf16 */
    uint32_t step_tokens_max, step_rows_max;
    uint32_t scratch_tokens; /* a step's, and with MTP the positions that drafts left behind */
    uint32_t slots_max;      /* with MTP, rows' slots are below it */
    struct weights weights;
    struct kv_pages kv;
    uint32_t rank;
    struct placement placement; /* 0 ranks: the rank is alone, each expert in its own slot */
    enum row_mla_mode dispatch_form, combine_form;
    uint32_t dispatch_bytes, combine_bytes; /* of a row, and of a result, in the exchange */
    bool rows_by_host;                      /* model_options.rows_by_host */
    bool
        fixed_order; /* micro-batches' stages run in an order that all ranks share, whatever has come */
    struct scratch *scratch;
    struct batch batch;     /* the step's */
    struct batch mtp_rows;  /* MTP positions of which only the KV rows are computed */
    struct batch mtp_batch; /* MTP positions that run through the whole block */
    struct micro_batch micro_batches[OVERLAP_MICRO_BATCHES];
    uint32_t micro_batch_count;           /* of the last step's schedule */
    struct exchange_link link, node_link; /* to other nodes, or to all; and to ranks of this node */
    const struct model_trace *trace;
    struct model_draws draws;       /* only where compute.draw is not NULL */
    struct model_follower follower; /* `written` is NULL without a follower */
    struct model_guesser guesser;   /* `guess` is NULL: drafts are the MTP layer's */
    struct drafts *drafts;          /* NULL without MTP */
    struct moves *moves;            /* NULL: no expert ever moves */
    uint64_t tokens;                /* of all steps' rows */
    uint32_t *slot_tokens; /* [weights.slot_count] tokens computed since model_take_tokens */
    char numerics_id[32];
    uint8_t identity[32];
};
