/* SPDX-License-Identifier: Apache-2.0
 * How long a request that comes now will wait until its first token is computed: what is ahead of it
 * in its turn, divided by the speed at which the fleet has lately brought requests to their first
 * tokens. Work is counted in tokens (serving/policy/share_turns), and speed only over the time in
 * which there was some to do: an idle fleet is not a slow one.
 *
 * Speed is measured, not known: whatever makes units slow (answers that go on beside prompts,
 * places that are all taken) is in it. What was measured long ago counts less and less.
 *
 * A request is refused when its wait would be longer than the limit of its class: its client can do
 * something better with the time than to wait in a queue that grows. Its own prompt is no reason, or
 * a long one would be refused by an idle fleet.
 */
#ifndef SERVING_POLICY_PREDICT_TTFT_H
#define SERVING_POLICY_PREDICT_TTFT_H

#include "contract/record_ledger.h"

#define PREDICT_TTFT_MEMORY_NS                                                                     \
    ((int64_t)20000000000)    /* busy time after which the past counts half */
#define PREDICT_TTFT_STARTS 8 /* first tokens before anything is predicted */

struct predict_ttft { /* starts zeroed: nothing known */
    double work;      /* that has come to its first tokens */
    double busy_ns;   /* in so much time */
    uint32_t starts;  /* first tokens, up to PREDICT_TTFT_STARTS */
    bool is_busy;
    int64_t since_ns; /* busy, and not in busy_ns yet */
};

/* There is something to do from now on; or there is nothing any more. */
void predict_ttft_busy(struct predict_ttft *ttft, bool is_busy, int64_t now_ns);

/* First tokens have come of so much work. */
void predict_ttft_start(struct predict_ttft *ttft, uint64_t work, int64_t now_ns);

/* Until so much work is done; 0 while nothing is known. */
int64_t predict_ttft_ns(const struct predict_ttft *ttft, uint64_t work);

/* The limit for that class: half of it for low priority, twice for high. */
int64_t predict_ttft_limit(int64_t limit_ns, enum account_priority priority);

#endif
