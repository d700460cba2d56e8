/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance_prefill.h"

#include "base/check.h"
#include "base/limits.h"

const char *balance_prefill_reason_name(enum prefill_reason reason) {
    static const char *const names[PREFILL_REASON_COUNT] = {
        [PREFILL_BOUND] = "bound to the least loaded rank",
        [PREFILL_BOUND_TO_HIT] = "bound to the rank that caches most of it",
        [PREFILL_WAITS_FOR_HIT] = "waits for the rank that caches most of it",
        [PREFILL_WAITS_ROOM] = "waits: every rank's next step is full",
        [PREFILL_WAITS_PAGES] = "waits: too few pages are free",
    };
    check(reason < PREFILL_REASON_COUNT);
    return names[reason];
}

double balance_prefill_costs_of(const struct prefill_costs *costs, uint32_t new_tokens,
                                uint32_t before) {
    if (new_tokens == 0) return 0;
    double count = new_tokens, context = before;
    return costs->token * count + costs->attended * (count * context + count * (count + 1) / 2) +
           costs->read * context;
}

uint32_t balance_prefill_costs_chunk_min(const struct prefill_costs *costs) {
    double tokens = 2 * costs->read / costs->attended;
    return (uint32_t)(tokens / KV_BLOCK_TOKENS + 1) * KV_BLOCK_TOKENS;
}

struct prefill_choice balance_prefill(const struct prefill_costs *costs,
                                      const struct prefill_need *need,
                                      const struct prefill_rank *ranks,
                                      const struct prefill_hit *hits, uint32_t rank_count) {
    uint32_t best = BALANCE_NO_RANK, best_any = BALANCE_NO_RANK, idlest = BALANCE_NO_RANK;
    double best_cost = 0, best_any_cost = 0;
    bool room = false;
    for (uint32_t i = 0; i < rank_count; i++) {
        check(hits[i].cached_tokens < need->prompt_tokens);
        uint32_t cached = hits[i].cached_tokens;
        double cost = ranks[i].bound_cost + hits[i].fetch_cost +
                      balance_prefill_costs_of(costs, need->prompt_tokens - cached, cached);
        if (best_any == BALANCE_NO_RANK || cost < best_any_cost) {
            best_any = i;
            best_any_cost = cost;
        }
        room |= ranks[i].accepts;
        if (!ranks[i].accepts || ranks[i].pages_free < need->page_count) continue;
        if (idlest == BALANCE_NO_RANK || ranks[i].bound_cost < ranks[idlest].bound_cost) idlest = i;
        if (best == BALANCE_NO_RANK || cost < best_cost) {
            best = i;
            best_cost = cost;
        }
    }
    if (best == BALANCE_NO_RANK)
        return (struct prefill_choice){best, room ? PREFILL_WAITS_PAGES : PREFILL_WAITS_ROOM, 0};
    if (need->patient && best_any_cost < best_cost)
        return (struct prefill_choice){BALANCE_NO_RANK, PREFILL_WAITS_FOR_HIT, best_any_cost};
    bool idle = ranks[best].bound_cost <= ranks[idlest].bound_cost;
    return (struct prefill_choice){best, idle ? PREFILL_BOUND : PREFILL_BOUND_TO_HIT, best_cost};
}

double balance_prefill_level(const double *full_ns, uint32_t rank_count, double least_ns) {
    double sum = 0;
    uint32_t busy = 0;
    for (uint32_t i = 0; i < rank_count; i++) {
        sum += full_ns[i];
        busy += full_ns[i] > 0;
    }
    double mean = busy ? sum / busy : 0;
    return mean > least_ns ? mean : least_ns;
}
