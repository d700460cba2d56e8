/* SPDX-License-Identifier: Apache-2.0
 * How much may be begun in a minute: a bucket that holds one minute's worth, is filled evenly, and
 * from which is taken what begins. So over any time t no more is taken than what t brings and one
 * minute's worth besides. What is known only afterwards is taken afterwards, and may leave a debt,
 * during which nothing begins.
 *
 * The bucket is one number, the time at which it will be full again (the generic cell rate
 * algorithm, ITU-T I.371): to take puts it off, and nothing has to be done as time goes by. A limit
 * that changes keeps the share of the bucket that is left.
 */
#ifndef SERVING_POLICY_RATE_LIMIT_H
#define SERVING_POLICY_RATE_LIMIT_H

#include <stdint.h>

struct rate_limit {  /* zeros: full */
    int64_t full_ns; /* past: it is full */
};

#define RATE_LIMIT_NEVER INT64_MAX
#define RATE_LIMIT_DEBT_NS_MAX ((int64_t)86400000000000) /* a longer debt is forgiven */

/* In all that follows `per_minute` 0 is no limit. */

/* After how many ns `count` may be taken, if nobody takes anything until then; 0: now, as always
 * with a count of 0; RATE_LIMIT_NEVER: it is more than a minute's worth. */
int64_t rate_limit_wait_ns(const struct rate_limit *limit, uint64_t per_minute, uint64_t count,
                           int64_t now_ns);

/* In whole seconds, so that it is over by then; at least 1. */
uint32_t rate_limit_retry_seconds(int64_t wait_ns);

/* Whether or not there is so much. And what was taken in vain comes back. */
void rate_limit_take(struct rate_limit *limit, uint64_t per_minute, uint64_t count, int64_t now_ns);
void rate_limit_give(struct rate_limit *limit, uint64_t per_minute, uint64_t count);

/* What may be taken now, and after how many ns it will be a minute's worth again. */
uint64_t rate_limit_left(const struct rate_limit *limit, uint64_t per_minute, int64_t now_ns);
int64_t rate_limit_reset_ns(const struct rate_limit *limit, uint64_t per_minute, int64_t now_ns);

#endif
