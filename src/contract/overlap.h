/* SPDX-License-Identifier: Apache-2.0
 * Overlap schedules: in which order a step's stages run, as tables. A step's tokens form one or two
 * micro-batches, here lanes; each goes through each layer's stages:
 *
 *   ATTENTION_0  norm, down and up projections, KV rows
 *   ATTENTION_1  core attention, output projection, gate
 *   DISPATCH     tokens leave for their experts' ranks; under way until MLP
 *   SHARED       the shared expert
 *   MLP          waits for the dispatch; routed experts, or the dense MLP; results leave
 *   COMBINE      waits for the results; they are summed
 *
 * What stands between DISPATCH and MLP, or between MLP and COMBINE, of one lane hides its
 * communication. The engine executes a table, a world in virtual time can time the same one, and a
 * trace names its stages. Tables after the figures in DeepSeek's inference system overview.
 */
#ifndef CONTRACT_OVERLAP_H
#define CONTRACT_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>

#define OVERLAP_LANES 2

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
const char *stage_name(enum stage stage);

struct overlap_row {
    uint8_t stage, lane;
    uint8_t ahead; /* 1: of the layer after the one that the walk is at */
};

struct overlap {
    uint32_t lane_count, row_count;
    const struct overlap_row *rows; /* of one layer. The walk begins a layer before the first, so
                                     * that rows ahead run for it, and rows of no layer are skipped
                                     */
};

enum overlap_kind {
    OVERLAP_SEQUENTIAL,         /* one lane */
    OVERLAP_PREFILL_DUAL_BATCH, /* attention and MLP of one lane over the other's communication */
    OVERLAP_DECODE_FIVE_STAGE,  /* dispatch under SHARED and the other's ATTENTION_0, combine under
                                 * the  other's ATTENTION_1: ATTENTION_0 | ATTENTION_1 | DISPATCH |
                                 * MLP |  COMBINE in two lanes, half a layer apart */
    OVERLAP_KIND_COUNT
};

const struct overlap *overlap_of(enum overlap_kind kind);

/* "sequential", "prefill-dual-batch", "decode-five-stage" */
const char *overlap_name(enum overlap_kind kind);

#endif
