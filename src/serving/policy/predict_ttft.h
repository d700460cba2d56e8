/* SPDX-License-Identifier: Apache-2.0
 * Predicts how long a new request will wait until its first token is computed: the work ahead of it
 * in its turn, divided by the speed at which the fleet has recently brought requests to their first
 * tokens. Work is counted in tokens (serving/policy/fair_queue), and speed only over the time with
 * work to do, because an idle fleet is not slow.
 *
 * Speed is measured. So it includes whatever slows units down (answers in progress, full request
 * slots). Old measurements count less and less.
 *
 * A request is refused if its wait would exceed the limit of its class: its client has better
 * options than a growing queue. Its own prompt does not count, because otherwise an idle fleet
 * would refuse a long one.
 */
#ifndef SERVING_POLICY_PREDICT_TTFT_H
#define SERVING_POLICY_PREDICT_TTFT_H

#include "contract/record_ledger.h"

#define PREDICT_TTFT_MEMORY_NS                                                                     \
    ((int64_t)20000000000)    /* busy time after which the past counts half */
#define PREDICT_TTFT_STARTS 8 /* first tokens required before anything is predicted */

struct predict_ttft { /* starts zeroed: nothing known */
    double work;      /* that reached its first tokens */
    double busy_ns;   /* time for that work */
    uint32_t starts;  /* first tokens, up to PREDICT_TTFT_STARTS */
    bool is_busy;
    int64_t since_ns; /* start of the busy time not in busy_ns yet */
};

/* There is work from now on, or there is none any more. */
void predict_ttft_busy(struct predict_ttft *ttft, bool is_busy, int64_t now_ns);

/* First tokens of so much work were computed. */
void predict_ttft_start(struct predict_ttft *ttft, uint64_t work, int64_t now_ns);

/* Time until so much work is done; 0 while nothing is known. */
int64_t predict_ttft_ns(const struct predict_ttft *ttft, uint64_t work);

/* The limit of that class: half of it for low priority, twice for high. */
int64_t predict_ttft_limit(int64_t limit_ns, enum account_priority priority);

#endif
