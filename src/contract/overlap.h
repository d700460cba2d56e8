/* SPDX-License-Identifier: Apache-2.0
 * Overlap schedules: the order of the stages of a step, which hides the communication of one
 * micro-batch behind the computation of others. The tokens of a step form one or more
 * micro-batches. Each micro-batch passes through the stages of each layer:
 *
 *   ATTENTION_0  norm, down and up projections, KV rows; the choice of an indexer; core attention
 *                of the micro-batch's first generated tokens, as many as overlap_early returns
 *   ATTENTION_1  core attention of the others, output projection, gate
 *   DISPATCH     sends tokens to the ranks of their experts; the transfer lasts until MLP
 *   SHARED       the shared expert
 *   MLP          waits for the dispatch; computes routed experts, or the dense MLP; sends results
 *   COMBINE      waits for the results and sums them
 *
 * Stages that run between DISPATCH and MLP of a micro-batch, or between its MLP and COMBINE, hide
 * its communication. A schedule has a fixed or a dynamic order. A fixed order lists all stages, as
 * in the figures of DeepSeek's inference system overview. A dynamic order chooses among the stages
 * that are ready: it skips a micro-batch with a transfer under way, so a rank waits only if all
 * micro-batches wait. Ranks may then run different orders. This is correct because the order within
 * a micro-batch is the same on all ranks.
 *
 * The engine executes a table, the simulator computes the time of the same table, and traces name
 * its stages.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define OVERLAP_MICRO_BATCHES 8

enum stage {
    STAGE_ATTENTION_0,
    STAGE_ATTENTION_1,
    STAGE_DISPATCH,
    STAGE_SHARED,
    STAGE_MLP,
    STAGE_COMBINE,
    STAGE_COUNT
};

/* "ATTN-0", "ATTN-1", "DISPATCH", "SHARED", "MLP", "COMBINE" */
const char *overlap_stage_name(enum stage stage);

struct overlap_row {
    uint8_t stage, micro_batch;
    uint8_t ahead; /* 1: a stage of the next layer */
};

struct overlap_dynamic_order {
    uint8_t stages[STAGE_COUNT]; /* rank of each stage; the lowest runs first */
    /* true: among equal stages, prefer the micro-batch in the lowest layer. On a tie, or if false:
     * the lowest index */
    bool abreast;
};

struct overlap {
    uint32_t micro_batch_count, row_count;
    /* rows of one layer. The table also runs once before the first layer, for rows with `ahead`;
     * rows without a layer are skipped */
    const struct overlap_row *rows;
    const struct overlap_dynamic_order *dynamic_order; /* NULL: the order is fixed */
    const uint8_t
        /* [micro_batch_count] shares of the step's work; NULL: equal shares, measured by attention
         * alone */
        *shares;
    /* sixteenths of a micro-batch's generated tokens that have their core attention in
     * ATTENTION_0 */
    uint8_t early_sixteenths;
};

enum overlap_kind {
    OVERLAP_SEQUENTIAL, /* one micro-batch */
    /* attention and MLP of one micro-batch hide the communication of the other */
    OVERLAP_PREFILL_DUAL_BATCH,
    /* Two micro-batches, half a layer apart: ATTENTION_0 | ATTENTION_1 | DISPATCH | MLP | COMBINE.
     * SHARED and the other's ATTENTION_0 hide the dispatch; the other's ATTENTION_1 hides the
     * combine */
    OVERLAP_DECODE_FIVE_STAGE,
    OVERLAP_QUAD_BATCH, /* four micro-batches at equal progress, to keep the link busy */
    OVERLAP_HEXA_BATCH, /* six micro-batches; better than four if the shares are uneven */
    /* Eight micro-batches, the first ones ahead, for models with few layers: the link need not wait
     * until all micro-batches have begun. The first and the last are half as large, because nothing
     * hides their ends */
    OVERLAP_OCTO_BATCH,
    /* DECODE_FIVE_STAGE with three eighths of the generated tokens' core attention in ATTENTION_0
     * instead of one eighth, for dispatches that take longer than combines. Equal to
     * DECODE_FIVE_STAGE for prompts alone */
    OVERLAP_DECODE_EARLY,
    OVERLAP_KIND_COUNT
};

const struct overlap *overlap_of(enum overlap_kind kind);

/* "sequential", "prefill-dual-batch", "decode-five-stage", "quad-batch", "hexa-batch",
 * "octo-batch", "decode-early" */
const char *overlap_name(enum overlap_kind kind);

/* The number of leading tokens with core attention in ATTENTION_0, out of `tokens` generated
 * tokens. */
uint32_t overlap_early(const struct overlap *overlap, uint32_t tokens);

/* The next stage of a micro-batch. */
struct overlap_place {
    uint32_t layer;
    enum stage stage;
    bool waits; /* for a transfer under way */
};

/* For a dynamic order: the index of the micro-batch that runs its next stage now, or
 * micro_batch_count if none is ready. A micro-batch at layer `layers` is complete. `reads`: the
 * stage that reads KV rows of earlier tokens, ATTENTION_0 with an indexer and else ATTENTION_1. It
 * runs after ATTENTION_0 of earlier micro-batches, because a prompt may be split among them. */
uint32_t overlap_next(const struct overlap *overlap, uint32_t layers, enum stage reads,
                      const struct overlap_place *places /* [micro_batch_count] */);

/* Moves the micro-batch past its current stage. */
void overlap_advance(struct overlap_place *place);
