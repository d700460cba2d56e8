/* SPDX-License-Identifier: Apache-2.0
 * Places the replicas of experts on ranks: a greedy packing, and a search that lowers the load of
 * the busiest rank.
 *
 * The greedy packing is that of DeepSeek's load balancer: heaviest first, each to the least loaded
 * rank with free slots. The search exchanges a replica of the busiest rank for a lighter one of
 * another rank, but only if both ranks end below the load of the busiest one. The largest load
 * therefore never grows, and the search ends. The search does not change the numbers of replicas,
 * because that gained nothing (docs/performance/balance.md).
 */
#pragma once

#include "serving/policy/balance/balance_state.h"

/* Distributes items[span.rank_count * room], sorted by descending share, to the span's ranks. Their
 * counts and shares are already set. */
void balance_pack_fill(struct balance_state *state, struct balance_span span,
                       const uint16_t *items);

/* Exchanges slots until no rank of the span holds an expert twice, as far as that is possible
 * without a higher largest load. A second replica on the same rank is useless, because the tokens
 * of a batch then have one rank fewer to choose from. */
void balance_pack_spread(struct balance_state *state, struct balance_span span);

struct balance_search {
    struct balance_span span; /* the search moves items only within it */
    uint32_t near_ranks;      /* ranks of a node; exchanges within one are preferred */
    uint64_t target;          /* the search may stop at this largest load */
    uint32_t steps_max;
};

/* Lowers the span's largest load, down to `target` if possible. */
void balance_pack_refine(struct balance_state *state, const struct balance_search *search);
