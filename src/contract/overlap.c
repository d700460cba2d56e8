/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/overlap.h"

#include "base/bytes.h"
#include "base/check.h"

#include <stddef.h>

static const struct overlap_row sequential[] = {
    {STAGE_ATTENTION_0, 0, 0}, {STAGE_ATTENTION_1, 0, 0}, {STAGE_DISPATCH, 0, 0},
    {STAGE_SHARED, 0, 0},      {STAGE_MLP, 0, 0},         {STAGE_COMBINE, 0, 0},
};

static const struct overlap_row prefill_dual_batch[] = {
    {STAGE_COMBINE, 0, 0},     {STAGE_ATTENTION_0, 0, 1}, {STAGE_ATTENTION_1, 0, 1},
    {STAGE_DISPATCH, 0, 1},    {STAGE_COMBINE, 1, 0}, /* micro-batch 0's attention hid it */
    {STAGE_ATTENTION_0, 1, 1}, {STAGE_ATTENTION_1, 1, 1}, {STAGE_DISPATCH, 1, 1},
    {STAGE_SHARED, 0, 1},      {STAGE_MLP, 0, 1}, /* micro-batch 1's attention hid its dispatch */
    {STAGE_SHARED, 1, 1},      {STAGE_MLP, 1, 1}, /* micro-batch 0's MLP hid its dispatch */
};

static const struct overlap_row decode_five_stage[] = {
    {STAGE_ATTENTION_0, 0, 1}, {STAGE_MLP, 1, 0},
    {STAGE_ATTENTION_1, 0, 1}, {STAGE_DISPATCH, 0, 1},
    {STAGE_COMBINE, 1, 0}, /* micro-batch 0's ATTENTION_1 hid it */
    {STAGE_SHARED, 0, 1},      {STAGE_ATTENTION_0, 1, 1},
    {STAGE_MLP, 0, 1}, /* SHARED and micro-batch 1's ATTENTION_0 hid its dispatch */
    {STAGE_ATTENTION_1, 1, 1}, {STAGE_DISPATCH, 1, 1},
    {STAGE_COMBINE, 0, 1},     {STAGE_SHARED, 1, 1},
};

/* Times for DeepSeek-V3's sizes on H800, with 53 sequences per micro-batch at 5,000 positions: a
 * dispatch takes 97 us, and SHARED and ATTENTION_0 hide 79 us of it. A combine takes 169 us, and
 * ATTENTION_1 could hide 231 us, 146 us of them core attention. An eighth of the core attention in
 * ATTENTION_0 fills the first gap and leaves enough for the second. If results return by groups, a
 * dispatch is a third of the traffic instead of a fifth, so three eighths are needed. */
#define EARLY_SIXTEENTHS 2
#define EARLY_SIXTEENTHS_BY_GROUPS 6

/* Stages that start transfers run first. COMBINE ranks with attention: the micro-batch has no other
 * stage left before the next layer. */
#define SENDS_FIRST                                                                                \
    {                                                                                              \
        [STAGE_DISPATCH] = 0, [STAGE_SHARED] = 1, [STAGE_MLP] = 1, [STAGE_COMBINE] = 2,            \
        [STAGE_ATTENTION_0] = 2, [STAGE_ATTENTION_1] = 2                                           \
    }

static const struct overlap_dynamic_order abreast = {SENDS_FIRST, true};
static const struct overlap_dynamic_order in_file = {SENDS_FIRST, false};

static const uint8_t alike[OVERLAP_MICRO_BATCHES] = {1, 1, 1, 1, 1, 1, 1, 1};
static const uint8_t small_ends[] = {1, 2, 2, 2, 2, 2, 2, 1};

static const struct overlap overlaps[OVERLAP_KIND_COUNT] = {
    [OVERLAP_SEQUENTIAL] = {1, ARRAY_COUNT(sequential), sequential, NULL, NULL},
    [OVERLAP_PREFILL_DUAL_BATCH] = {2, ARRAY_COUNT(prefill_dual_batch), prefill_dual_batch, NULL,
                                    NULL},
    [OVERLAP_DECODE_FIVE_STAGE] = {2, ARRAY_COUNT(decode_five_stage), decode_five_stage, NULL, NULL,
                                   EARLY_SIXTEENTHS},
    [OVERLAP_QUAD_BATCH] = {4, 0, NULL, &abreast, alike},
    [OVERLAP_HEXA_BATCH] = {6, 0, NULL, &abreast, alike},
    [OVERLAP_OCTO_BATCH] = {8, 0, NULL, &in_file, small_ends},
    [OVERLAP_DECODE_EARLY] = {2, ARRAY_COUNT(decode_five_stage), decode_five_stage, NULL, NULL,
                              EARLY_SIXTEENTHS_BY_GROUPS},
};

const struct overlap *overlap_of(enum overlap_kind kind) {
    check(kind < OVERLAP_KIND_COUNT);
    return &overlaps[kind];
}

uint32_t overlap_early(const struct overlap *overlap, uint32_t tokens) {
    return (uint32_t)(((uint64_t)tokens * overlap->early_sixteenths + 8) / 16);
}

const char *overlap_name(enum overlap_kind kind) {
    static const char *const names[OVERLAP_KIND_COUNT] = {
        [OVERLAP_SEQUENTIAL] = "sequential",
        [OVERLAP_PREFILL_DUAL_BATCH] = "prefill-dual-batch",
        [OVERLAP_DECODE_FIVE_STAGE] = "decode-five-stage",
        [OVERLAP_QUAD_BATCH] = "quad-batch",
        [OVERLAP_HEXA_BATCH] = "hexa-batch",
        [OVERLAP_OCTO_BATCH] = "octo-batch",
        [OVERLAP_DECODE_EARLY] = "decode-early",
    };
    check(kind < OVERLAP_KIND_COUNT);
    return names[kind];
}

/* True if the next stage of the micro-batch can run. The stage `reads` waits for the KV rows of all
 * earlier micro-batches, because a prompt may be split among them. Their order of progress is
 * arbitrary, because transfers end in any order. */
static bool can_run(const struct overlap_place *places, uint32_t micro_batch, enum stage reads) {
    const struct overlap_place *place = &places[micro_batch];
    if (place->waits) return false;
    for (uint32_t i = 0; i < micro_batch && place->stage == reads; i++) {
        const struct overlap_place *before = &places[i];
        bool has_written = before->layer > place->layer ||
                           (before->layer == place->layer && before->stage >= STAGE_ATTENTION_1);
        if (!has_written) return false;
    }
    return true;
}

/* True if `a` runs before `b`, which has the lower index. */
static bool is_more_urgent(const struct overlap_dynamic_order *dynamic_order,
                           const struct overlap_place *a, const struct overlap_place *b) {
    if (dynamic_order->stages[a->stage] != dynamic_order->stages[b->stage])
        return dynamic_order->stages[a->stage] < dynamic_order->stages[b->stage];
    return dynamic_order->abreast && a->layer < b->layer;
}

uint32_t overlap_next(const struct overlap *overlap, uint32_t layers, enum stage reads,
                      const struct overlap_place *places) {
    uint32_t next = overlap->micro_batch_count;
    for (uint32_t micro_batch = 0; micro_batch < overlap->micro_batch_count; micro_batch++)
        if (places[micro_batch].layer < layers && can_run(places, micro_batch, reads) &&
            (next == overlap->micro_batch_count ||
             is_more_urgent(overlap->dynamic_order, &places[micro_batch], &places[next])))
            next = micro_batch;
    return next;
}

void overlap_advance(struct overlap_place *place) {
    place->waits = false;
    place->stage++;
    if (place->stage < STAGE_COUNT) return;
    place->stage = STAGE_ATTENTION_0;
    place->layer++;
}

const char *overlap_stage_name(enum stage stage) {
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
