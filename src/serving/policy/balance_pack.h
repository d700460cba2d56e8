/* SPDX-License-Identifier: Apache-2.0
 * Where replicas live: the greedy packing, and a search that makes the busiest rank less busy.
 *
 * The greedy (heaviest first, each to the least loaded rank with room) is that of DeepSeek's load
 * balancer. The search exchanges an item of the busiest rank for a lighter one of another rank. It
 * does so only if both end below the busiest one's load, so the largest load never grows and the
 * search ends. Counts of replicas stay as they are: a search that changed them, too, brought no
 * balance at all (docs/performance/balance.md).
 */
#ifndef SERVING_POLICY_BALANCE_PACK_H
#define SERVING_POLICY_BALANCE_PACK_H

#include "serving/policy/balance_state.h"

/* items[span.rank_count * room], descending by share, go to the span's ranks. Their counts and
 * shares are set already. */
void balance_pack_fill(struct balance_state *state, struct balance_span span,
                       const uint16_t *items);

/* Exchanges slots until no rank of the span holds an expert twice, as far as that is possible
 * without a larger largest load. A duplicate beside its like is of no use: a batch's tokens have one
 * rank fewer to go to. */
void balance_pack_spread(struct balance_state *state, struct balance_span span);

struct balance_search {
    struct balance_span span; /* moves happen within it */
    uint32_t near_ranks;      /* ranks of a node; exchanges within one are preferred */
    uint64_t target;          /* the largest load is good enough */
    uint32_t steps_max;
};

/* Lowers the span's largest load, to `target` if it can. */
void balance_pack_refine(struct balance_state *state, const struct balance_search *search);

#endif
