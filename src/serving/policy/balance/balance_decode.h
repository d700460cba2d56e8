/* SPDX-License-Identifier: Apache-2.0
 * The decode load balancer: chooses the DP rank that continues a request. Its goal, as stated in
 * DeepSeek's inference system overview: "balance KVCache usage across GPUs; equalize request counts
 * per GPU". In a step, a rank has a cost for each request and for each KV page read. The most
 * expensive rank determines the time of the step, so the request goes to the rank with the smallest
 * sum. That rank must have pages for the tokens of the request, on top of the pages promised to
 * others. Ranks that would run out of pages by their expected growth are avoided.
 *
 * Running requests stay where they are, unless a rank is about to run out of pages.
 * balance_decode_relieve then chooses the one that is cheapest to move.
 *
 * Pure. Doubles with fixed operations in a fixed order; ties go to the lowest rank.
 */
#pragma once

#include "serving/policy/balance/balance.h"

struct decode_costs {
    double request_ns; /* cost of a request in a step */
    double page_ns;    /* cost of a KV page that its attention reads */
};

struct decode_rank {
    uint32_t requests;       /* running requests, and those with reserved pages */
    uint32_t requests_max;   /* maximum of rows in a step */
    uint32_t pages_total;    /* of the rank */
    uint32_t pages_held;     /* held by running requests */
    uint32_t pages_reserved; /* promised to requests that are still in prefill */
    uint32_t pages_expected; /* expected growth of its requests (predict_length.h) */
};

struct decode_need {
    uint32_t page_count;     /* for the prompt and the first tokens */
    uint32_t pages_expected; /* expected growth */
};

enum decode_reason {
    DECODE_BOUND, /* the cheapest rank with enough pages for all expected growth */
    /* no rank has enough pages for all growth; this one has the most left */
    DECODE_BOUND_TIGHT,
    DECODE_WAITS_ROWS,  /* every rank has the maximum of running requests */
    DECODE_WAITS_PAGES, /* no rank has enough pages */
    DECODE_REASON_COUNT
};

/* The reason as short lower-case text, for logs and traces. */
const char *balance_decode_reason_name(enum decode_reason reason);

struct decode_choice {
    uint32_t rank; /* BALANCE_NO_RANK: the request waits */
    uint32_t reason;
};

struct decode_choice balance_decode(const struct decode_costs *costs,
                                    const struct decode_need *need, const struct decode_rank *ranks,
                                    uint32_t rank_count);

struct decode_running {
    uint32_t pages; /* pages to move or compute again */
    int64_t turn;   /* schedule_turn; on a tie the higher slot leaves */
};

/* Chooses the request to move away from a rank that needs `pages_wanted` pages: of those that free
 * enough pages, the one with the fewest. If none frees enough, the one with the most; the caller
 * then calls again. BALANCE_NO_RANK if there is none. */
uint32_t balance_decode_relieve(const struct decode_running *running, uint32_t count,
                                uint32_t pages_wanted);
