/* SPDX-License-Identifier: Apache-2.0
 * Methods that choose a DP rank for a request, shared by the prefill and the decode load balancer.
 * All methods except BALANCE_WORK exist only for comparison.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BALANCE_NO_RANK UINT32_MAX

enum balance_method {
    BALANCE_WORK,        /* predicted cost of the ranks' steps: balance_prefill, balance_decode */
    BALANCE_ROUND_ROBIN, /* each rank in turn */
    BALANCE_LEAST_REQUESTS, /* the rank with the fewest requests */
    BALANCE_LEAST_TOKENS,   /* the rank with the fewest tokens (prefill) or KV pages (decode) */
    /* of two random ranks, the one with fewer requests (Mitzenmacher 2001) */
    BALANCE_POWER_OF_TWO,
    BALANCE_METHOD_COUNT
};

/* "work", "round-robin", "least-requests", "least-tokens", "power-of-two" */
const char *balance_method_name(enum balance_method method);

/* The input of the simple methods. */
struct balance_rank {
    uint32_t requests;
    uint64_t tokens;
    bool accepts; /* false: the rank is full */
};

/* Chooses by any method except BALANCE_WORK. `choice_number` is the number of choices so far, and
 * the only source of randomness. Returns BALANCE_NO_RANK if no rank accepts the request. */
uint32_t balance_choose_simple(enum balance_method method, const struct balance_rank *ranks,
                               uint32_t rank_count, uint64_t choice_number);
