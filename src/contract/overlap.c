/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/overlap.h"

#include "base/bytes.h"
#include "base/check.h"

static const struct overlap_row sequential[] = {
    {STAGE_ATTENTION_0, 0, 0}, {STAGE_ATTENTION_1, 0, 0}, {STAGE_DISPATCH, 0, 0},
    {STAGE_SHARED, 0, 0},      {STAGE_MLP, 0, 0},         {STAGE_COMBINE, 0, 0},
};

static const struct overlap_row prefill_dual_batch[] = {
    {STAGE_COMBINE, 0, 0},     {STAGE_ATTENTION_0, 0, 1}, {STAGE_ATTENTION_1, 0, 1},
    {STAGE_DISPATCH, 0, 1},    {STAGE_COMBINE, 1, 0}, /* was hidden by lane 0's attention */
    {STAGE_ATTENTION_0, 1, 1}, {STAGE_ATTENTION_1, 1, 1}, {STAGE_DISPATCH, 1, 1},
    {STAGE_SHARED, 0, 1},      {STAGE_MLP, 0, 1}, /* its dispatch: by lane 1's attention */
    {STAGE_SHARED, 1, 1},      {STAGE_MLP, 1, 1}, /* its dispatch: by lane 0's MLP */
};

static const struct overlap_row decode_five_stage[] = {
    {STAGE_ATTENTION_0, 0, 1}, {STAGE_MLP, 1, 0},
    {STAGE_ATTENTION_1, 0, 1}, {STAGE_DISPATCH, 0, 1},
    {STAGE_COMBINE, 1, 0}, /* was hidden by lane 0's ATTENTION_1 */
    {STAGE_SHARED, 0, 1},      {STAGE_ATTENTION_0, 1, 1},
    {STAGE_MLP, 0, 1}, /* its dispatch: by SHARED and lane 1's ATTENTION_0 */
    {STAGE_ATTENTION_1, 1, 1}, {STAGE_DISPATCH, 1, 1},
    {STAGE_COMBINE, 0, 1},     {STAGE_SHARED, 1, 1},
};

static const struct overlap overlaps[OVERLAP_KIND_COUNT] = {
    [OVERLAP_SEQUENTIAL] = {1, ARRAY_COUNT(sequential), sequential},
    [OVERLAP_PREFILL_DUAL_BATCH] = {2, ARRAY_COUNT(prefill_dual_batch), prefill_dual_batch},
    [OVERLAP_DECODE_FIVE_STAGE] = {2, ARRAY_COUNT(decode_five_stage), decode_five_stage},
};

const struct overlap *overlap_of(enum overlap_kind kind) {
    check(kind < OVERLAP_KIND_COUNT);
    return &overlaps[kind];
}

const char *overlap_name(enum overlap_kind kind) {
    static const char *const names[OVERLAP_KIND_COUNT] = {
        [OVERLAP_SEQUENTIAL] = "sequential",
        [OVERLAP_PREFILL_DUAL_BATCH] = "prefill-dual-batch",
        [OVERLAP_DECODE_FIVE_STAGE] = "decode-five-stage",
    };
    check(kind < OVERLAP_KIND_COUNT);
    return names[kind];
}

const char *stage_name(enum stage stage) {
    static const char *const names[STAGE_COUNT] = {
        [STAGE_ATTENTION_0] = "ATTN-0",
        [STAGE_ATTENTION_1] = "ATTN-1",
        [STAGE_DISPATCH] = "DISPATCH",
        [STAGE_SHARED] = "SHARED",
        [STAGE_MLP] = "MLP",
        [STAGE_COMBINE] = "COMBINE",
    };
    check(stage < STAGE_COUNT);
    return names[stage];
}
