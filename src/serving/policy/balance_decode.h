/* SPDX-License-Identifier: Apache-2.0
 * The decode load balancer: which DP rank continues a request. Its aim, in the words of DeepSeek's
 * inference system overview: "balance KVCache usage across GPUs; equalize request counts per GPU".
 * A rank's step costs so much a request and so much a KV page read; the costliest rank is the
 * step's time, so the request goes where that sum is smallest. A rank must have pages for what the
 * request brings, beyond those it has promised to others, and is better avoided if the growth it
 * can expect would fill it.
 *
 * Nothing that runs is moved, unless a rank is about to run out of pages: then
 * balance_decode_relieve says who goes, the cheapest to move.
 *
 * Pure. Doubles with fixed operations in a fixed order; ties go to the lowest rank.
 */
#ifndef SERVING_POLICY_BALANCE_DECODE_H
#define SERVING_POLICY_BALANCE_DECODE_H

#include "serving/policy/balance.h"

struct decode_costs {
    double request_ns; /* of a request in a step */
    double page_ns;    /* of a KV page that its attention reads */
};

struct decode_rank {
    uint32_t requests;       /* running, and those that pages are reserved for */
    uint32_t requests_max;   /* rows of a step */
    uint32_t pages_total;    /* of the rank */
    uint32_t pages_held;     /* by running requests */
    uint32_t pages_reserved; /* promised to requests that are still in prefill */
    uint32_t pages_expected; /* by which its requests will yet grow (predict_length.h) */
};

struct decode_need {
    uint32_t page_count;     /* for the prompt and the first tokens */
    uint32_t pages_expected; /* by which it will grow, as expected */
};

enum decode_reason {
    DECODE_BOUND,       /* the cheapest rank, with room for all expected growth */
    DECODE_BOUND_TIGHT, /* no rank has room for all growth; the one with most pages left after it */
    DECODE_WAITS_ROWS,  /* every rank runs as many requests as it may */
    DECODE_WAITS_PAGES, /* no rank has the pages */
    DECODE_REASON_COUNT
};

/* Short lower-case text, for logs and traces. */
const char *decode_reason_name(enum decode_reason reason);

struct decode_choice {
    uint32_t rank; /* BALANCE_NO_RANK: it waits */
    uint32_t reason;
};

struct decode_choice balance_decode(const struct decode_costs *costs,
                                    const struct decode_need *need, const struct decode_rank *ranks,
                                    uint32_t rank_count);

struct decode_running {
    uint32_t pages; /* it holds, all of them to be moved or computed again */
    int64_t turn;   /* schedule_turn; the higher gives way among equals */
};

/* Who leaves a rank that needs `pages_wanted`: of those who free enough the one with the fewest
 * pages; if nobody does, the one with the most, and the caller asks again. BALANCE_NO_RANK: there
 * is nobody. */
uint32_t balance_decode_relieve(const struct decode_running *running, uint32_t count,
                                uint32_t pages_wanted);

#endif
