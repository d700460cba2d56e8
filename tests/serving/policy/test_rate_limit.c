/* SPDX-License-Identifier: Apache-2.0
 * Protects what a rate promises: over any time no more is begun than the rate and one minute's
 * worth; who is told to come again later gets in then; what is left may be taken.
 */
#include "serving/policy/rate_limit.h"

#include "base/random.h"
#include "test_case.h"

#define SECOND ((int64_t)1000000000)
#define MINUTE (60 * SECOND)

/* Takes if it may. */
static int takes(struct rate_limit *limit, uint64_t per_minute, uint64_t count, int64_t now_ns) {
    if (rate_limit_wait_ns(limit, per_minute, count, now_ns) > 0) return 0;
    rate_limit_take(limit, per_minute, count, now_ns);
    return 1;
}

TEST(a_minute_s_worth_at_once_and_then_the_rate) {
    struct rate_limit limit = {0};
    for (int i = 0; i < 60; i++)
        assert_true(takes(&limit, 60, 1, 5 * SECOND));
    assert_false(takes(&limit, 60, 1, 5 * SECOND));
    assert_false(takes(&limit, 60, 1, 6 * SECOND - 1));
    assert_true(takes(&limit, 60, 1, 6 * SECOND));
    assert_false(takes(&limit, 60, 1, 6 * SECOND));
    assert_int_equal(rate_limit_left(&limit, 60, 36 * SECOND), 30);
    assert_int_equal(rate_limit_reset_ns(&limit, 60, 36 * SECOND), 30 * SECOND);
    assert_int_equal(rate_limit_left(&limit, 60, 10 * MINUTE), 60); /* no more than that */
    assert_int_equal(rate_limit_reset_ns(&limit, 60, 10 * MINUTE), 0);
    rate_limit_take(&limit, 7, 1,
                    10 * MINUTE); /* a seventh of a minute, and not a nanosecond more */
    assert_int_equal(rate_limit_reset_ns(&limit, 7, 10 * MINUTE), MINUTE / 7 + 1);
}

TEST(no_limit_takes_everything) {
    struct rate_limit limit = {0};
    assert_int_equal(rate_limit_wait_ns(&limit, 0, UINT64_MAX, 0), 0);
    rate_limit_take(&limit, 0, UINT64_MAX, 0);
    rate_limit_give(&limit, 0, UINT64_MAX);
    assert_int_equal(limit.full_ns, 0);
    limit.full_ns = MINUTE; /* from when there was a limit */
    assert_int_equal(rate_limit_reset_ns(&limit, 0, 0), 0);
    assert_int_equal(rate_limit_wait_ns(&limit, 0, 1, 0), 0);
}

TEST(more_than_a_minute_s_worth_never_passes) {
    struct rate_limit limit = {0};
    assert_int_equal(rate_limit_wait_ns(&limit, 100, 101, MINUTE), RATE_LIMIT_NEVER);
    assert_int_equal(rate_limit_wait_ns(&limit, 100, 100, MINUTE), 0);
}

TEST(what_is_taken_afterwards_leaves_a_debt) {
    struct rate_limit limit = {0};
    rate_limit_take(&limit, 60, 120, 0);
    assert_int_equal(rate_limit_left(&limit, 60, 0), 0);
    assert_int_equal(rate_limit_wait_ns(&limit, 60, 1, 0), 61 * SECOND);
    rate_limit_give(&limit, 60, 90); /* it was not so much, after all */
    assert_int_equal(rate_limit_left(&limit, 60, 0), 30);
    rate_limit_take(&limit, 1, UINT64_MAX / 2, 0);
    assert_int_equal(rate_limit_reset_ns(&limit, 1, 0), RATE_LIMIT_DEBT_NS_MAX);
}

TEST(a_limit_that_changes_keeps_the_share_that_is_left) {
    struct rate_limit limit = {0};
    rate_limit_take(&limit, 100, 75, 0);
    assert_int_equal(rate_limit_left(&limit, 1000, 0), 250);
}

TEST(seconds_are_whole_and_enough) {
    assert_int_equal(rate_limit_retry_seconds(0), 1);
    assert_int_equal(rate_limit_retry_seconds(1), 1);
    assert_int_equal(rate_limit_retry_seconds(SECOND), 1);
    assert_int_equal(rate_limit_retry_seconds(SECOND + 1), 2);
    assert_int_equal(rate_limit_retry_seconds(RATE_LIMIT_NEVER), 86400);
}

/* At random limits, sizes and moments. */
TEST(no_window_has_more_than_its_rate_and_a_minute_s_worth) {
    enum { EVENTS = 400 };
    for (uint32_t seed = 0; seed < 50; seed++) {
        uint64_t per_minute = 1 + (uint64_t)(random_uniform(seed, 0, 0) * 1e6), sums[EVENTS];
        int64_t times[EVENTS], now_ns = 0;
        struct rate_limit limit = {0};
        for (uint32_t i = 0; i < EVENTS; i++) {
            double share = random_uniform(seed, 1, i), size = random_uniform(seed, 2, i);
            uint64_t count = 1 + (uint64_t)(size * size * (double)(per_minute - 1));
            now_ns += (int64_t)(share * share * 20e9);
            times[i] = now_ns;
            int64_t wait_ns = rate_limit_wait_ns(&limit, per_minute, count, now_ns);
            assert_true(count <= rate_limit_left(&limit, per_minute, now_ns) || wait_ns > 0);
            struct rate_limit later = limit; /* who comes again as told gets in */
            assert_true(takes(&later, per_minute, count,
                              now_ns + rate_limit_retry_seconds(wait_ns) * SECOND));
            sums[i] = takes(&limit, per_minute, count, now_ns) ? count : 0;
        }
        for (uint32_t first = 0; first < EVENTS; first++) {
            double sum = 0;
            for (uint32_t last = first; last < EVENTS; last++) {
                sum += (double)sums[last];
                double minutes = (double)(times[last] - times[first]) / (double)MINUTE;
                assert_true(sum <= (double)per_minute * (1 + minutes) + 1e-3);
            }
        }
    }
}
