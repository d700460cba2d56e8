/* SPDX-License-Identifier: Apache-2.0
 * The usage of an account, or of one of its API keys, checked against its limits: concurrent
 * answers, requests and tokens per minute, and money. serving/policy/rate_limit implements the
 * rates. Times are in ns, and amounts of money in nanos (10^-9) of the currency.
 */
#pragma once

#include <stdbool.h>

#include "contract/record_ledger.h"
#include "serving/policy/rate_limit.h"

struct account_use {
    uint32_t held; /* answers in progress */
    struct rate_limit requests, tokens;
    int64_t unreported; /* charges that the last ACCOUNTS does not include yet */
    int64_t dropped;    /* the part of `unreported` that comes from entries dropped from the ring */
    int64_t set_aside;  /* maximum cost of the answers in progress, which is reserved */
};

enum account_verdict {
    ACCOUNT_MAY,
    ACCOUNT_TOO_MANY, /* the limit of concurrent answers is reached */
    ACCOUNT_NEVER,    /* the demand alone exceeds a limit, so it can never be admitted */
    ACCOUNT_TOO_FAST, /* the limit of requests per minute is reached */
    ACCOUNT_TOO_MUCH, /* the limit of tokens per minute is reached */
    ACCOUNT_UNPAID    /* all remaining money is reserved */
};

/* The resources that a request needs. */
struct account_demand {
    uint32_t answers;
    uint64_t tokens;
    bool is_request;
    uint64_t tokens_least; /* lower bound of the tokens, known before prompts are tokenized */
    int64_t amount;        /* money to reserve */
};

/* Checks a demand and changes nothing. With TOO_FAST and TOO_MUCH, raises *wait_ns_out to the time
 * after which the demand can be admitted, if nothing else is admitted meanwhile. A request that
 * exceeds the rate of requests also waits until its tokens fit. */
enum account_verdict account_use_verify(const struct account_use *use,
                                        const struct account_limits *limits,
                                        const struct account_demand *demand, int64_t now_ns,
                                        int64_t *wait_ns_out);

/* Reserves the resources of a demand that account_use_verify admitted. */
void account_use_begin(struct account_use *use, const struct account_limits *limits,
                       const struct account_demand *demand, int64_t now_ns);

/* Gives back what account_use_begin took for a demand, or a part of it. */
void account_use_end(struct account_use *use, const struct account_limits *limits,
                     const struct account_demand *demand);

/* The remaining quota, for OpenAI's x-ratelimit response headers. */
struct account_standing {
    uint64_t request_limit, requests_left; /* limit 0: not reported. If requests per minute are
                                            * unlimited, this is the limit of concurrent answers */
    uint64_t token_limit, tokens_left;
    int64_t request_reset_ns, token_reset_ns; /* until the quota is full again; -1: not by time */
};

struct account_standing account_use_standing(const struct account_use *use,
                                             const struct account_limits *limits, int64_t now_ns);

/* Combines two standings: for each limit, the stricter one. */
struct account_standing account_use_stricter(struct account_standing one,
                                             struct account_standing other);
