/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance.h"

#include "base/check.h"
#include "base/random.h"

const char *balance_method_name(enum balance_method method) {
    static const char *const names[BALANCE_METHOD_COUNT] = {
        [BALANCE_WORK] = "work",
        [BALANCE_ROUND_ROBIN] = "round-robin",
        [BALANCE_LEAST_REQUESTS] = "least-requests",
        [BALANCE_LEAST_TOKENS] = "least-tokens",
        [BALANCE_POWER_OF_TWO] = "power-of-two",
    };
    check(method < BALANCE_METHOD_COUNT);
    return names[method];
}

/* The first rank that accepts requests, searching cyclically from `from`. */
static uint32_t next_available(const struct balance_rank *ranks, uint32_t rank_count,
                               uint32_t from) {
    for (uint32_t i = 0; i < rank_count; i++)
        if (ranks[(from + i) % rank_count].accepts) return (from + i) % rank_count;
    return BALANCE_NO_RANK;
}

static uint32_t least_loaded_rank(const struct balance_rank *ranks, uint32_t rank_count,
                                  bool by_tokens) {
    uint32_t best = BALANCE_NO_RANK;
    for (uint32_t i = 0; i < rank_count; i++) {
        if (!ranks[i].accepts) continue;
        if (best == BALANCE_NO_RANK || (by_tokens ? ranks[i].tokens < ranks[best].tokens
                                                  : ranks[i].requests < ranks[best].requests))
            best = i;
    }
    return best;
}

static uint32_t better_of_two(const struct balance_rank *ranks, uint32_t rank_count,
                              uint64_t choice_number) {
    uint32_t counter[4] = {(uint32_t)choice_number, (uint32_t)(choice_number >> 32), 0, 0};
    uint32_t key[2] = {0x62616c61, 0x6e636520}; /* "balance " in ASCII */
    uint32_t bits[4];
    random_philox(counter, key, bits);
    uint32_t a = next_available(ranks, rank_count, bits[0] % rank_count);
    uint32_t b = next_available(ranks, rank_count, bits[1] % rank_count);
    if (a == BALANCE_NO_RANK) return a; /* then b is BALANCE_NO_RANK, too */
    return ranks[b].requests < ranks[a].requests ? b : a;
}

uint32_t balance_choose_simple(enum balance_method method, const struct balance_rank *ranks,
                               uint32_t rank_count, uint64_t choice_number) {
    check(rank_count > 0);
    switch (method) {
    case BALANCE_ROUND_ROBIN:
        return next_available(ranks, rank_count, (uint32_t)(choice_number % rank_count));
    case BALANCE_LEAST_REQUESTS:
        return least_loaded_rank(ranks, rank_count, false);
    case BALANCE_LEAST_TOKENS:
        return least_loaded_rank(ranks, rank_count, true);
    case BALANCE_POWER_OF_TWO:
        return better_of_two(ranks, rank_count, choice_number);
    default:
        check(!"BALANCE_WORK is not handled here");
        return BALANCE_NO_RANK;
    }
}
