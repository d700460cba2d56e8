/* SPDX-License-Identifier: Apache-2.0
 * The use by an account, or one of its keys, against its limits: answers in progress, requests and
 * tokens of the last minute, and money. serving/policy/rate_limit computes the rates. Times are in
 * ns.
 */
#pragma once

#include <stdbool.h>

#include "contract/record_ledger.h"
#include "serving/policy/rate_limit.h"

struct account_use {
    uint32_t held; /* answers under way */
    struct rate_limit requests, tokens;
    int64_t unreported; /* nanos charged that the last ACCOUNTS does not include yet */
    int64_t dropped;    /* the part of owed that belongs to forgotten entries */
    int64_t set_aside;  /* nanos reserved for answers in progress: the most that they may cost */
};

enum account_verdict {
    ACCOUNT_MAY,
    ACCOUNT_TOO_MANY, /* its limit of answers in progress is reached */
    ACCOUNT_NEVER,    /* it exceeds a limit by itself and can never be admitted */
    ACCOUNT_TOO_FAST, /* the limit of requests per minute is reached */
    ACCOUNT_TOO_MUCH, /* the limit of tokens per minute is reached */
    ACCOUNT_UNPAID    /* all remaining money is set aside */
};

/* The resources that a request needs: answers to start, or tokens. */
struct account_demand {
    uint32_t answers;
    uint64_t tokens;
    bool is_request;
    uint64_t tokens_least; /* a request's tokens that are known before its prompts are tokenized */
    int64_t amount;        /* nanos to set aside */
};

/* Changes nothing. With TOO_FAST and TOO_MUCH *wait_ns_out becomes the larger of its old value and
 * the time after which the demand can be admitted if nothing else is admitted meanwhile. A request
 * that exceeds the rate of requests also waits until its tokens fit. */
enum account_verdict account_use_verify(const struct account_use *use,
                                        const struct account_limits *limits,
                                        const struct account_demand *demand, int64_t now_ns,
                                        int64_t *wait_ns_out);

/* Takes a demand that account_use_verify admitted. */
void account_use_begin(struct account_use *use, const struct account_limits *limits,
                       const struct account_demand *demand, int64_t now_ns);

/* Returns resources of a demand: answers in progress, tokens of the rate, the request itself, money
 * set aside. */
void account_use_end(struct account_use *use, const struct account_limits *limits,
                     const struct account_demand *demand);

/* The rest of the limits, for response headers with OpenAI's names. */
struct account_standing {
    uint64_t request_limit, requests_left; /* limit 0: not reported. If requests per minute are
                                            * unlimited, the limit of answers in progress */
    uint64_t token_limit, tokens_left;
    int64_t request_reset_ns, token_reset_ns; /* -1: does not depend on time */
};

struct account_standing account_use_standing(const struct account_use *use,
                                             const struct account_limits *limits, int64_t now_ns);

/* Combines two: the stricter one for each limit. */
struct account_standing account_use_stricter(struct account_standing one,
                                             struct account_standing other);
