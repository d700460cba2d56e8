/* SPDX-License-Identifier: Apache-2.0
 * Which DP rank gets a request: how the two load balancers may choose. Everything but BALANCE_WORK
 * is there to be compared with, and for those who want it.
 */
#ifndef SERVING_POLICY_BALANCE_H
#define SERVING_POLICY_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

#define BALANCE_NO_RANK UINT32_MAX

enum balance_method {
    BALANCE_WORK,        /* by what the ranks' steps will cost: balance_prefill, balance_decode */
    BALANCE_ROUND_ROBIN, /* each rank in its turn */
    BALANCE_LEAST_REQUESTS, /* fewest requests bound */
    BALANCE_LEAST_TOKENS,   /* fewest tokens bound (prefill), fewest KV pages (decode) */
    BALANCE_POWER_OF_TWO,   /* of two ranks drawn at random the one with fewer requests
                             * (Mitzenmacher 2001) */
    BALANCE_METHOD_COUNT
};

/* "work", "round-robin", "least-requests", "least-tokens", "power-of-two" */
const char *balance_method_name(enum balance_method method);

/* What the simple methods look at. */
struct balance_rank {
    uint32_t requests;
    uint64_t tokens;
    bool takes; /* false: has no room */
};

/* One of the methods but BALANCE_WORK; `draw` counts the choices made so far and is all that chance
 * depends on. BALANCE_NO_RANK: nobody takes. */
uint32_t balance_simply(enum balance_method method, const struct balance_rank *ranks,
                        uint32_t rank_count, uint64_t draw);

#endif
