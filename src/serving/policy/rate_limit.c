/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/rate_limit.h"

#include "base/number.h"

#define MINUTE_NS ((int64_t)60000000000)

/* The time for `count` at that rate, rounded up. */
static int64_t time_of(uint64_t per_minute, uint64_t count) {
    double ns = (double)count / (double)per_minute * (double)MINUTE_NS;
    if (ns >= (double)RATE_LIMIT_DEBT_NS_MAX) return RATE_LIMIT_DEBT_NS_MAX;
    int64_t whole = (int64_t)ns;
    return (double)whole < ns ? whole + 1 : whole;
}

int64_t rate_limit_reset_ns(const struct rate_limit *limit, uint64_t per_minute, int64_t now_ns) {
    return per_minute && limit->full_ns > now_ns ? limit->full_ns - now_ns : 0;
}

int64_t rate_limit_wait_ns(const struct rate_limit *limit, uint64_t per_minute, uint64_t count,
                           int64_t now_ns) {
    if (!per_minute || !count) return 0;
    if (count > per_minute) return RATE_LIMIT_NEVER;
    int64_t least_ns = time_of(per_minute, count) - MINUTE_NS;
    int64_t wait_ns = rate_limit_reset_ns(limit, per_minute, now_ns) + least_ns;
    return wait_ns > 0 ? wait_ns : 0;
}

uint32_t rate_limit_retry_seconds(int64_t wait_ns) {
    int64_t seconds = (min_i64(wait_ns, RATE_LIMIT_DEBT_NS_MAX) + 999999999) / 1000000000;
    return seconds > 0 ? (uint32_t)seconds : 1;
}

void rate_limit_take(struct rate_limit *limit, uint64_t per_minute, uint64_t count,
                     int64_t now_ns) {
    if (!per_minute) return;
    int64_t from_ns = limit->full_ns > now_ns ? limit->full_ns : now_ns;
    limit->full_ns = min_i64(from_ns + time_of(per_minute, count), now_ns + RATE_LIMIT_DEBT_NS_MAX);
}

void rate_limit_give(struct rate_limit *limit, uint64_t per_minute, uint64_t count) {
    if (per_minute) limit->full_ns -= time_of(per_minute, count);
}

uint64_t rate_limit_left(const struct rate_limit *limit, uint64_t per_minute, int64_t now_ns) {
    int64_t left_ns = MINUTE_NS - rate_limit_reset_ns(limit, per_minute, now_ns);
    if (!per_minute || left_ns <= 0) return 0;
    uint64_t left = (uint64_t)((double)left_ns / (double)MINUTE_NS * (double)per_minute);
    while (left > 0 && rate_limit_wait_ns(limit, per_minute, left, now_ns) > 0)
        left--; /* correct the rounding */
    return left;
}
