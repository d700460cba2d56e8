/* SPDX-License-Identifier: Apache-2.0
 * What an account, or one of its keys, has in use against its limits: answers under way, what it
 * began in the last minute, and money. Rates are serving/policy/rate_limit's; time is told in ns.
 */
#ifndef SERVING_GATEWAY_ACCOUNT_USE_H
#define SERVING_GATEWAY_ACCOUNT_USE_H

#include <stdbool.h>

#include "contract/record_ledger.h"
#include "serving/policy/rate_limit.h"

struct account_use {
    uint32_t held; /* answers under way */
    struct rate_limit requests, tokens;
    int64_t owed;      /* nanos that were charged, and are not in what ACCOUNTS told */
    int64_t dropped;   /* of them, by entries that are remembered no more */
    int64_t set_aside; /* nanos for answers under way: the most that they may come to */
};

enum account_verdict {
    ACCOUNT_MAY,
    ACCOUNT_TOO_MANY, /* it has as many answers under way as it may */
    ACCOUNT_NEVER,    /* it may never have so many under way, or so many tokens a minute */
    ACCOUNT_TOO_FAST, /* requests of a minute */
    ACCOUNT_TOO_MUCH, /* tokens of a minute */
    ACCOUNT_UNPAID    /* nothing is left that is not set aside */
};

/* What is to be begun: so many answers by one request, or tokens. */
struct account_demand {
    uint32_t answers;
    uint64_t tokens;
    bool is_request;
    uint64_t tokens_least; /* a request's that are known before its prompts are tokenized */
    int64_t amount;        /* nanos to be set aside */
};

/* Changes nothing. *wait_ns_out, with TOO_FAST and TOO_MUCH: after that long it may, if nobody else
 * takes anything; never less than it was. A request that is too fast waits until its tokens have
 * room, too. */
enum account_verdict account_use_judge(const struct account_use *use,
                                       const struct account_limits *limits,
                                       const struct account_demand *demand, int64_t now_ns,
                                       int64_t *wait_ns_out);

/* What was judged begins. */
void account_use_begin(struct account_use *use, const struct account_limits *limits,
                       const struct account_demand *demand, int64_t now_ns);

/* Of what began, it is given back: answers under way, tokens of a rate, the request itself, what was
 * set aside. */
void account_use_end(struct account_use *use, const struct account_limits *limits,
                     const struct account_demand *demand);

/* What is left of limits, as headers tell it: OpenAI's names. */
struct account_standing {
    uint64_t request_limit, requests_left; /* limit 0: none is told. Of answers under way where a
                                            * minute's requests are not limited */
    uint64_t token_limit, tokens_left;
    int64_t request_reset_ns, token_reset_ns; /* -1: not a matter of time */
};

struct account_standing account_use_standing(const struct account_use *use,
                                             const struct account_limits *limits, int64_t now_ns);

/* The stricter of two in each. */
struct account_standing account_use_stricter(struct account_standing one,
                                             struct account_standing other);

#endif
