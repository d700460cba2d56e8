/* SPDX-License-Identifier: Apache-2.0
 * Divides a batch's tokens among the replicas of their experts. All ranks know how many tokens
 * chose each expert (replicas.h), and compute the same split from the same counts. The split
 * minimizes the load of the busiest rank for this batch; replicas that take turns balance only the
 * average.
 *
 * The split is an exact min-max flow. Experts with one replica load their rank. The tokens of the
 * others flow to the ranks of their replicas, up to a level T. T starts at a lower bound of any
 * split. If some tokens can reach no rank below T, then in any split the set Z of ranks that they
 * do reach must take its current load and these tokens. So T rises to ceil((load(Z) + tokens) /
 * |Z|), which is again a lower bound. The last T is therefore optimal.
 * (Z is the source side of a minimum cut; this is Newton's method on its value, D. L. Dinkelbach
 * 1967.)
 *
 * Integers, a fixed order, no allocation. It takes microseconds, once in each layer of a step.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SPLIT_TOKENS_EMPTY UINT16_MAX /* a slot without an expert */

struct split_tokens { /* one layer's placement and scratch, in the caller's memory */
    uint32_t expert_count, slot_count, rank_count, slots_per_rank;
    const uint16_t *slot_to_expert; /* [slot_count], borrowed */
    uint32_t *firsts;     /* [expert_count + 1] index of an expert's first slot in `slots` */
    uint16_t *slots;      /* [slot_count] sorted by expert, then ascending */
    uint32_t *loads;      /* [rank_count] scratch: tokens on each rank */
    uint32_t *reached_by; /* [rank_count] scratch: the slot through which the search reached it */
    uint16_t *queue;      /* [rank_count] scratch: ranks in the order in which they were reached */
};

size_t split_tokens_bytes(uint32_t expert_count, uint32_t slot_count, uint32_t rank_count);

/* Every expert has a slot; a slot may be empty. `memory` (aligned to 8) and the map must outlive
 * the split. */
void split_tokens_open(struct split_tokens *split, uint32_t expert_count, uint32_t slot_count,
                       uint32_t rank_count, const uint16_t *slot_to_expert, void *memory);

/* counts[expert_count]: the batch's tokens for each expert, their sum below 2^32. takes_out
 * [slot_count]: how many of its expert's tokens each slot takes. Returns the largest rank load. */
uint32_t split_tokens(struct split_tokens *split, const uint32_t *counts, uint32_t *takes_out);

/* The slot for an expert's token number `ordinal`, below its count; all ranks number the tokens
 * alike. Each replica takes a run of consecutive tokens, so a rank's tokens mostly go to one
 * replica. */
static inline uint32_t split_tokens_slot(const struct split_tokens *split, const uint32_t *takes,
                                         uint32_t expert, uint32_t ordinal) {
    uint32_t at = split->firsts[expert], last = split->firsts[expert + 1] - 1;
    for (; at < last && ordinal >= takes[split->slots[at]]; at++)
        ordinal -= takes[split->slots[at]];
    return split->slots[at];
}
