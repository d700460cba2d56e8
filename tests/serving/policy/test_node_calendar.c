/* SPDX-License-Identifier: Apache-2.0
 * Protects the calendar of nodes: promises add up, are known before they begin, and may go over
 * midnight; the last line that says a price counts.
 */

#include "serving/policy/node_calendar.h"
#include "test_case.h"

static const struct node_calendar calendar = {
    .period_ns = 24,
    .price = 2,
    .count = 3,
    .lines = {{.from_ns = 22, .until_ns = 8, .promised = 4, .price = -1},
              {.from_ns = 6, .until_ns = 10, .promised = 3, .price = -1},
              {.from_ns = 0, .until_ns = 12, .promised = 0, .price = 0.5}}};

TEST(promises_add_up_and_go_over_midnight) {
    assert_int_equal(node_calendar_promised(&calendar, 12, 12), 0);
    assert_int_equal(node_calendar_promised(&calendar, 23, 23), 4);
    assert_int_equal(node_calendar_promised(&calendar, 24 + 3, 24 + 3), 4);
    assert_int_equal(node_calendar_promised(&calendar, 7, 7), 7);
    assert_int_equal(node_calendar_promised(&calendar, 8, 8), 3);
    assert_int_equal(node_calendar_promised(&calendar, 10, 10), 0);
}

TEST(a_promise_is_known_before_it_begins) {
    assert_int_equal(node_calendar_promised(&calendar, 12, 21), 0);
    assert_int_equal(node_calendar_promised(&calendar, 12, 22), 4);
    assert_int_equal(node_calendar_promised(&calendar, 12, 24 + 7), 7);
    assert_int_equal(node_calendar_promised(&calendar, 4 * 24 + 4, 4 * 24 + 6), 7);
}

TEST(prices_follow_the_day) {
    assert_true(node_calendar_price(&calendar, 3) == 0.5);
    assert_true(node_calendar_price(&calendar, 24 + 12) == 2);
    struct node_calendar even = {.period_ns = 288, .price = 3};
    assert_true(node_calendar_price_mean(&even) == 3);
}
