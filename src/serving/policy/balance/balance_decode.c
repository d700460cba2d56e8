/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance_decode.h"

#include "base/check.h"

const char *balance_decode_reason_name(enum decode_reason reason) {
    static const char *const names[DECODE_REASON_COUNT] = {
        [DECODE_BOUND] = "bound to the rank with the cheapest step",
        [DECODE_BOUND_TIGHT] = "bound to the rank with most pages: no rank has room for all growth",
        [DECODE_WAITS_ROWS] = "waits: every rank runs as many as it may",
        [DECODE_WAITS_PAGES] = "waits: too few pages are free",
    };
    check(reason < DECODE_REASON_COUNT);
    return names[reason];
}

struct decode_choice balance_decode(const struct decode_costs *costs,
                                    const struct decode_need *need, const struct decode_rank *ranks,
                                    uint32_t rank_count) {
    uint32_t best = BALANCE_NO_RANK, widest = BALANCE_NO_RANK;
    double best_ns = 0;
    int64_t widest_left = 0;
    bool rows = false;
    for (uint32_t i = 0; i < rank_count; i++) {
        const struct decode_rank *rank = &ranks[i];
        if (rank->requests >= rank->requests_max) continue;
        rows = true;
        uint64_t used = (uint64_t)rank->pages_held + rank->pages_reserved;
        if (used + need->page_count > rank->pages_total) continue;
        int64_t left =
            (int64_t)rank->pages_total -
            (int64_t)(used + need->page_count + rank->pages_expected + need->pages_expected);
        if (widest == BALANCE_NO_RANK || left > widest_left) {
            widest = i;
            widest_left = left;
        }
        double ns = costs->request_ns * rank->requests + costs->page_ns * (double)used;
        if (left < 0 || (best != BALANCE_NO_RANK && ns >= best_ns)) continue;
        best = i;
        best_ns = ns;
    }
    if (best != BALANCE_NO_RANK) return (struct decode_choice){best, DECODE_BOUND};
    if (widest != BALANCE_NO_RANK) return (struct decode_choice){widest, DECODE_BOUND_TIGHT};
    return (struct decode_choice){BALANCE_NO_RANK, rows ? DECODE_WAITS_PAGES : DECODE_WAITS_ROWS};
}

/* True if `a` should leave before `b`. */
static bool leaves_first(const struct decode_running *a, const struct decode_running *b,
                         uint32_t pages_wanted) {
    bool a_frees = a->pages >= pages_wanted, b_frees = b->pages >= pages_wanted;
    if (a_frees != b_frees) return a_frees;
    if (a->pages != b->pages) return a_frees ? a->pages < b->pages : a->pages > b->pages;
    return a->turn > b->turn;
}

uint32_t balance_decode_relieve(const struct decode_running *running, uint32_t count,
                                uint32_t pages_wanted) {
    uint32_t first = BALANCE_NO_RANK;
    for (uint32_t i = 0; i < count; i++)
        if (first == BALANCE_NO_RANK || leaves_first(&running[i], &running[first], pages_wanted))
            first = i;
    return first;
}
