/* SPDX-License-Identifier: Apache-2.0
 * Limits a rate per minute with a token bucket. The bucket holds one minute's worth and refills
 * evenly, and each request takes from it when it starts. Over any time t, at most the refill of t
 * plus one minute's worth is taken. Amounts that are known only at the end are taken then. They may
 * leave a debt, and nothing starts until it is refilled.
 *
 * The state is one number, the time at which the bucket will be full again (generic cell rate
 * algorithm, ITU-T I.371). Taking moves that time forward, and no periodic work is needed. If the
 * limit changes, the fraction left in the bucket stays the same.
 */
#pragma once

#include <stdint.h>

struct rate_limit {  /* zeros: full */
    int64_t full_ns; /* time at which the bucket is full again; in the past: it is full now */
};

#define RATE_LIMIT_NEVER INT64_MAX
#define RATE_LIMIT_DEBT_NS_MAX ((int64_t)86400000000000) /* a longer debt is forgiven */

/* In all functions below, `per_minute` 0 means unlimited. */

/* The time in ns until `count` may be taken, if nothing else is taken meanwhile. 0: now, always for
 * a count of 0. RATE_LIMIT_NEVER: `count` exceeds a minute's worth. */
int64_t rate_limit_wait_ns(const struct rate_limit *limit, uint64_t per_minute, uint64_t count,
                           int64_t now_ns);

/* The wait in whole seconds, rounded up; at least 1. */
uint32_t rate_limit_retry_seconds(int64_t wait_ns);

/* rate_limit_take takes the amount unconditionally. rate_limit_give returns an amount that was not
 * used. */
void rate_limit_take(struct rate_limit *limit, uint64_t per_minute, uint64_t count, int64_t now_ns);
void rate_limit_give(struct rate_limit *limit, uint64_t per_minute, uint64_t count);

/* The amount that may be taken now, and the time in ns until the bucket is full again. */
uint64_t rate_limit_left(const struct rate_limit *limit, uint64_t per_minute, int64_t now_ns);
int64_t rate_limit_reset_ns(const struct rate_limit *limit, uint64_t per_minute, int64_t now_ns);
