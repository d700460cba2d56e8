/* SPDX-License-Identifier: Apache-2.0
 * Limits the rate per minute: a bucket that holds one minute's worth, refills evenly, and from
 * which each start takes. So over any time t at most the refill of t plus one minute's worth is
 * taken. Amounts that are known only afterwards are taken afterwards, and may leave a debt, during
 * which nothing starts.
 *
 * The bucket is one number, the time at which it will be full again (the generic cell rate
 * algorithm, ITU-T I.371). Taking moves it to later, and no periodic work is needed. If the limit
 * changes, the fraction left in the bucket stays.
 */
#ifndef SERVING_POLICY_RATE_LIMIT_H
#define SERVING_POLICY_RATE_LIMIT_H

#include <stdint.h>

struct rate_limit {  /* zeros: full */
    int64_t full_ns; /* in the past: it is full */
};

#define RATE_LIMIT_NEVER INT64_MAX
#define RATE_LIMIT_DEBT_NS_MAX ((int64_t)86400000000000) /* a longer debt is forgiven */

/* In all functions below, `per_minute` 0 means no limit. */

/* The time in ns until `count` may be taken, if nothing is taken meanwhile; 0: now, as always for a
 * count of 0; RATE_LIMIT_NEVER: it is more than a minute's worth. */
int64_t rate_limit_wait_ns(const struct rate_limit *limit, uint64_t per_minute, uint64_t count,
                           int64_t now_ns);

/* In whole seconds, rounded up; at least 1. */
uint32_t rate_limit_retry_seconds(int64_t wait_ns);

/* Takes unconditionally, and returns what was taken in vain. */
void rate_limit_take(struct rate_limit *limit, uint64_t per_minute, uint64_t count, int64_t now_ns);
void rate_limit_give(struct rate_limit *limit, uint64_t per_minute, uint64_t count);

/* The amount that may be taken now, and the time in ns until it is a minute's worth again. */
uint64_t rate_limit_left(const struct rate_limit *limit, uint64_t per_minute, int64_t now_ns);
int64_t rate_limit_reset_ns(const struct rate_limit *limit, uint64_t per_minute, int64_t now_ns);

#endif
