/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/stats.h"

#include <math.h>

#include "test_case.h"

static void assert_near(double found, double wanted) {
    if (fabs(found - wanted) > 1e-9) fail_msg("found %.12g, wanted %.12g", found, wanted);
}

/* The same figures as numpy.percentile gives for these values. */
TEST(percentiles_agree_with_numpy) {
    double values[] = {15, 20, 35, 40, 50, 3, 8};
    struct stats stats = stats_of(values, 7);
    assert_int_equal(stats.count, 7);
    assert_near(stats.mean, 171.0 / 7);
    assert_near(stats.p50, 20);
    assert_near(stats.p90, 44);
    assert_near(stats.p95, 47);
    assert_near(stats.p99, 49.4);
    assert_near(stats.max, 50);
}

TEST(few_values_are_no_trouble) {
    double one[] = {7}, two[] = {3, 1};
    struct stats none = stats_of(NULL, 0);
    assert_int_equal(none.count, 0);
    assert_near(none.p99, 0);
    struct stats single = stats_of(one, 1);
    assert_near(single.p50, 7);
    assert_near(single.p99, 7);
    struct stats pair = stats_of(two, 2);
    assert_near(pair.p50, 2);
    assert_near(pair.max, 3);
}

TEST(a_median_is_in_the_middle_and_the_spread_around_it) {
    double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2}, ten[] = {9, 0, 8, 1, 7, 2, 6, 3, 5, 4};
    assert_near(stats_median(odd, 3), 5);
    double middle = stats_median(even, 4);
    assert_true(middle >= 2 && middle <= 3);
    struct stats_spread spread = stats_spread(ten, 10, 0.1);
    assert_near(spread.low, 1);
    assert_near(spread.high, 8);
    spread = stats_spread(ten, 10, 0);
    assert_near(spread.low, 0);
    assert_near(spread.high, 9);
}
