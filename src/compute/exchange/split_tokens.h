/* SPDX-License-Identifier: Apache-2.0
 * Which replica each token of a batch goes to. Once all ranks know how many tokens chose each
 * expert (replicas.h), each computes the same split from the same counts. It makes the busiest rank
 * as idle as the placement allows for this very batch; turns balance an average day only.
 *
 * The split is an exact min-max flow: experts with one replica load their ranks as they must, the
 * others' tokens flow to their replicas' ranks, none above a level T. T starts at a bound that any
 * split obeys. When some tokens reach no rank below T along replicas, then the ranks that they do
 * reach (Z) have to carry all that they carry now and these tokens, whatever the split: T rises to
 * ceil(load(Z) + tokens, |Z|), which no split can beat either. So the last T is the least possible.
 * (Z is the source side of a minimum cut; this is Newton's method on its value, D. L. Dinkelbach
 * 1967.)
 *
 * Whole numbers, fixed order, no allocation: microseconds, once a layer and step.
 */
#ifndef COMPUTE_EXCHANGE_SPLIT_TOKENS_H
#define COMPUTE_EXCHANGE_SPLIT_TOKENS_H

#include <stddef.h>
#include <stdint.h>

#define SPLIT_TOKENS_EMPTY UINT16_MAX /* a slot without an expert */

struct split_tokens { /* of one layer's placement, with scratch; lies in the caller's memory */
    uint32_t expert_count, slot_count, rank_count, slots_per_rank;
    const uint16_t *slot_to_expert; /* [slot_count], borrowed */
    uint32_t *firsts;               /* [expert_count + 1] where an expert's slots begin */
    uint16_t *slots;                /* [slot_count] by expert, ascending within one */
    uint32_t *loads;                /* [rank_count] scratch: tokens on each rank */
    uint32_t *reached_by;           /* [rank_count] scratch: the slot through which it is reached */
    uint16_t *queue;                /* [rank_count] scratch: ranks in the order of being reached */
};

size_t split_tokens_bytes(uint32_t expert_count, uint32_t slot_count, uint32_t rank_count);

/* Every expert has a slot; a slot may have none. `memory` (aligned to 8) and the map live as long
 * as the split. */
void split_tokens_open(struct split_tokens *split, uint32_t expert_count, uint32_t slot_count,
                       uint32_t rank_count, const uint16_t *slot_to_expert, void *memory);

/* counts[expert_count]: the batch's tokens for each expert, their sum below 2^32. takes_out
 * [slot_count]: how many of its expert's tokens each slot takes. Returns the largest rank load. */
uint32_t split_tokens(struct split_tokens *split, const uint32_t *counts, uint32_t *takes_out);

/* The slot for an expert's token number `ordinal` (below its count), tokens numbered alike on all
 * ranks: a run of tokens to each replica in turn, so neighbours travel together. */
static inline uint32_t split_tokens_slot(const struct split_tokens *split, const uint32_t *takes,
                                         uint32_t expert, uint32_t ordinal) {
    uint32_t at = split->firsts[expert], last = split->firsts[expert + 1] - 1;
    for (; at < last && ordinal >= takes[split->slots[at]]; at++)
        ordinal -= takes[split->slots[at]];
    return split->slots[at];
}

#endif
