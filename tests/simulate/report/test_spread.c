/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/spread.h"

#include <math.h>

#include "test_case.h"

static struct time_spread spread;

static int empty(void **state) {
    (void)state;
    memset(&spread, 0, sizeof spread);
    return 0;
}

/* What people read of a percentile is right, whatever the size of the times. */
TEST_AROUND(percentiles_are_within_one_percent, empty, NULL) {
    for (int64_t i = 1; i <= 100000; i++)
        spread_add(&spread, i * 137000);
    double shares[] = {0.01, 0.5, 0.9, 0.99};
    for (int i = 0; i < 4; i++)
        assert_true(fabs(spread_quantile(&spread, shares[i]) / (shares[i] * 137e8) - 1) < 0.01);
    assert_true(fabs(spread_mean(&spread) / (137000 * 50000.5) - 1) < 1e-9);
    assert_true(fabs(spread_below(&spread, 137e8 / 4) - 0.25) < 0.005);
}

TEST_AROUND(an_empty_spread_is_zero, empty, NULL) {
    assert_true(spread_quantile(&spread, 0.5) == 0);
    assert_true(spread_mean(&spread) == 0);
    assert_true(spread_below(&spread, 1e9) == 0);
}

TEST_AROUND(times_at_both_ends_are_counted, empty, NULL) {
    spread_add(&spread, -5);
    spread_add(&spread, 0);
    spread_add(&spread, INT64_MAX);
    assert_int_equal(spread.total, 3);
    assert_true(spread_quantile(&spread, 0.3) <= 1);
    assert_true(spread_quantile(&spread, 1) > 1e14);
}
