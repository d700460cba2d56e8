/* SPDX-License-Identifier: Apache-2.0
 * Predicts the time to first token (TTFT) of a new request: the work ahead of it in its turn,
 * divided by the recent speed of the fleet. Work is counted in tokens (serving/policy/fair_queue).
 * Speed is measured only while there is work to do, because an idle fleet is not slow.
 *
 * Speed is measured, so it includes whatever slows units down (answers in progress, full request
 * slots). Old measurements decay.
 *
 * A request is refused if its wait would exceed the limit of its class, so that its client can try
 * another service instead of joining a growing queue. The time for its own prompt does not count,
 * because otherwise an idle fleet would refuse a long prompt.
 */
#pragma once

#include "contract/record_ledger.h"

#define PREDICT_TTFT_MEMORY_NS                                                                     \
    ((int64_t)20000000000)    /* busy time after which the past counts half */
#define PREDICT_TTFT_STARTS 8 /* first tokens required before anything is predicted */

struct predict_ttft { /* zeroed at the start */
    double work;      /* work that reached its first tokens */
    double busy_ns;   /* time for that work */
    uint32_t starts;  /* first tokens, up to PREDICT_TTFT_STARTS */
    bool is_busy;
    int64_t since_ns; /* start of the busy time that is not in busy_ns yet */
};

/* Notes that there is work from now on, or none. */
void predict_ttft_busy(struct predict_ttft *ttft, bool is_busy, int64_t now_ns);

/* Notes that the first tokens of `work` were computed. */
void predict_ttft_start(struct predict_ttft *ttft, uint64_t work, int64_t now_ns);

/* The time until `work` is done; 0 if nothing is known. */
int64_t predict_ttft_ns(const struct predict_ttft *ttft, uint64_t work);

/* The limit of a class: half for low priority, twice for high. */
int64_t predict_ttft_limit(int64_t limit_ns, enum account_priority priority);
