/* SPDX-License-Identifier: Apache-2.0
 * Overlap schedules: in which order a step's stages run, as tables. A step's tokens form one or
 * more micro-batches, here lanes; each goes through each layer's stages:
 *
 *   ATTENTION_0  norm, down and up projections, KV rows; core attention of as many of the lane's
 *                answers as the table says (overlap_early)
 *   ATTENTION_1  core attention of the others, output projection, gate
 *   DISPATCH     tokens leave for their experts' ranks; under way until MLP
 *   SHARED       the shared expert
 *   MLP          waits for the dispatch; routed experts, or the dense MLP; results leave
 *   COMBINE      waits for the results; they are summed
 *
 * What stands between DISPATCH and MLP, or between MLP and COMBINE, of one lane hides its
 * communication. There are two kinds of tables. A *walk* is one fixed order, after the figures in
 * DeepSeek's inference system overview. An *urgency* says which stage goes first among those that
 * could run: a lane with a transfer still under way is passed over, so a rank waits only when all
 * lanes do. Ranks need not agree then: a lane's own order is the same everywhere.
 *
 * The engine executes a table, a world in virtual time can time the same one, and a trace names its
 * stages.
 */
#ifndef CONTRACT_OVERLAP_H
#define CONTRACT_OVERLAP_H

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
    uint8_t ahead; /* 1: of the layer after the one that the walk is at */
};

struct overlap_dynamic_order {
    uint8_t stages[STAGE_COUNT]; /* lower goes first */
    bool abreast;                /* then the lane that is least far, else the one that comes first;
                                  * of equals always the latter */
};

struct overlap {
    uint32_t micro_batch_count, row_count;
    const struct overlap_row *rows; /* of one layer. The walk begins a layer before the first, so
                                     * that rows ahead run for it, and rows of no layer are skipped
                                     */
    const struct overlap_dynamic_order *dynamic_order; /* NULL: a walk */
    const uint8_t
        *shares; /* [micro_batch_count] of the step's work; NULL: all alike, of attention alone */
    uint8_t early_sixteenths; /* of a lane's answers: their core attention runs in ATTENTION_0 */
};

enum overlap_kind {
    OVERLAP_SEQUENTIAL,         /* one lane */
    OVERLAP_PREFILL_DUAL_BATCH, /* attention and MLP of one lane over the other's communication */
    OVERLAP_DECODE_FIVE_STAGE,  /* dispatch under SHARED and the other's ATTENTION_0, combine under
                                 * the  other's ATTENTION_1: ATTENTION_0 | ATTENTION_1 | DISPATCH |
                                 * MLP |  COMBINE in two lanes, half a layer apart */
    OVERLAP_QUAD_BATCH,         /* four lanes abreast: the link is kept busy */
    OVERLAP_HEXA_BATCH,         /* six: also where lanes' shares fit badly */
    OVERLAP_OCTO_BATCH,         /* eight, the first ones ahead: for models of few layers, where the
                                 * link should not wait for all lanes' first one. The first and the
                                 * last are half as large: nothing hides their ends */
    OVERLAP_DECODE_EARLY,       /* five stages, with three eighths of the answers' core attention in
                                 * ATTENTION_0 instead of one: where dispatches are longer than
                                 * combines. For prompts alone it is the five stages */
    OVERLAP_KIND_COUNT
};

const struct overlap *overlap_of(enum overlap_kind kind);

/* "sequential", "prefill-dual-batch", "decode-five-stage", "quad-batch", "hexa-batch",
 * "octo-batch", "decode-early" */
const char *overlap_name(enum overlap_kind kind);

/* The number of leading tokens, of `tokens` in the generated form, for which ATTENTION_0 runs core attention. */
uint32_t overlap_early(const struct overlap *overlap, uint32_t tokens);

/* Where a lane stands: what it runs next. */
struct overlap_place {
    uint32_t layer;
    enum stage stage;
    bool waits; /* for a transfer that is under way */
};

/* For a table with an urgency: the lane to run its next stage now; micro_batch_count: none can. A lane at
 * layer `layers` is through. The attention of a prompt that is split reads the KV rows that its
 * earlier lanes' ATTENTION_0 wrote, so it comes after that. */
uint32_t overlap_next(const struct overlap *overlap, uint32_t layers,
                      const struct overlap_place *places /* [micro_batch_count] */);

/* The lane's next stage is done. */
void overlap_advance(struct overlap_place *place);

#endif
