/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/account_use.h"

#include "base/check.h"

static bool account_use_waits(const struct rate_limit *limit, uint64_t per_minute, uint64_t count,
                              int64_t now_ns, int64_t *wait_ns_out) {
    int64_t wait_ns = rate_limit_wait_ns(limit, per_minute, count, now_ns);
    if (wait_ns > *wait_ns_out) *wait_ns_out = wait_ns;
    return wait_ns > 0;
}

enum account_verdict account_use_verify(const struct account_use *use,
                                        const struct account_limits *limits,
                                        const struct account_demand *demand, int64_t now_ns,
                                        int64_t *wait_ns_out) {
    uint64_t answers_max = limits->requests_max, tokens_max = limits->tokens_per_minute;
    if (answers_max && demand->answers > answers_max) return ACCOUNT_NEVER;
    if (tokens_max && demand->tokens > tokens_max) return ACCOUNT_NEVER;
    bool requests = account_use_waits(&use->requests, limits->requests_per_minute,
                                      demand->is_request, now_ns, wait_ns_out);
    bool tokens = account_use_waits(&use->tokens, tokens_max, demand->tokens, now_ns, wait_ns_out);
    if (requests && tokens_max && demand->tokens_least <= tokens_max)
        (void)account_use_waits(&use->tokens, tokens_max, demand->tokens_least, now_ns,
                                wait_ns_out);
    if (requests || tokens) return requests ? ACCOUNT_TOO_FAST : ACCOUNT_TOO_MUCH;
    bool is_full = demand->answers && answers_max && use->held + demand->answers > answers_max;
    return is_full ? ACCOUNT_TOO_MANY : ACCOUNT_MAY;
}

void account_use_begin(struct account_use *use, const struct account_limits *limits,
                       const struct account_demand *demand, int64_t now_ns) {
    use->held += demand->answers;
    use->set_aside += demand->amount;
    rate_limit_take(&use->requests, limits->requests_per_minute, demand->is_request, now_ns);
    rate_limit_take(&use->tokens, limits->tokens_per_minute, demand->tokens, now_ns);
}

void account_use_end(struct account_use *use, const struct account_limits *limits,
                     const struct account_demand *demand) {
    check(use->held >= demand->answers && use->set_aside >= demand->amount);
    use->held -= demand->answers;
    use->set_aside -= demand->amount;
    rate_limit_give(&use->requests, limits->requests_per_minute, demand->is_request);
    rate_limit_give(&use->tokens, limits->tokens_per_minute, demand->tokens);
}

struct account_standing account_use_standing(const struct account_use *use,
                                             const struct account_limits *limits, int64_t now_ns) {
    uint64_t requests = limits->requests_per_minute, tokens = limits->tokens_per_minute;
    uint64_t answers = limits->requests_max;
    struct account_standing standing = {
        .request_limit = requests,
        .requests_left = rate_limit_left(&use->requests, requests, now_ns),
        .request_reset_ns = rate_limit_reset_ns(&use->requests, requests, now_ns),
        .token_limit = tokens,
        .tokens_left = rate_limit_left(&use->tokens, tokens, now_ns),
        .token_reset_ns = rate_limit_reset_ns(&use->tokens, tokens, now_ns),
    };
    if (requests || !answers) return standing;
    standing.request_limit = answers;
    standing.requests_left = use->held < answers ? answers - use->held : 0;
    standing.request_reset_ns = -1;
    return standing;
}

/* True if the other standing has a limit and less left of it, or is the only one with a limit. */
static bool is_stricter(uint64_t limit, uint64_t left, uint64_t other_limit, uint64_t other_left) {
    return other_limit && (!limit || other_left < left);
}

struct account_standing account_use_stricter(struct account_standing one,
                                             struct account_standing other) {
    if (is_stricter(one.request_limit, one.requests_left, other.request_limit,
                    other.requests_left)) {
        one.request_limit = other.request_limit;
        one.requests_left = other.requests_left;
        one.request_reset_ns = other.request_reset_ns;
    }
    if (is_stricter(one.token_limit, one.tokens_left, other.token_limit, other.tokens_left)) {
        one.token_limit = other.token_limit;
        one.tokens_left = other.tokens_left;
        one.token_reset_ns = other.token_reset_ns;
    }
    return one;
}
