/* SPDX-License-Identifier: Apache-2.0
 * Protects the calendar of nodes: promises add up, are known before they begin, and may go over
 * midnight; the last line that says a price counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "serving/policy/node_calendar.h"

static const struct node_calendar calendar = {
    .period_ns = 24,
    .price = 2,
    .count = 3,
    .lines = {{.from_ns = 22, .until_ns = 8, .promised = 4, .price = -1},
              {.from_ns = 6, .until_ns = 10, .promised = 3, .price = -1},
              {.from_ns = 0, .until_ns = 12, .promised = 0, .price = 0.5}}};

static void promises_add_up_and_go_over_midnight(void **state) {
    (void)state;
    assert_int_equal(node_calendar_promised(&calendar, 12, 12), 0);
    assert_int_equal(node_calendar_promised(&calendar, 23, 23), 4);
    assert_int_equal(node_calendar_promised(&calendar, 24 + 3, 24 + 3), 4);
    assert_int_equal(node_calendar_promised(&calendar, 7, 7), 7);
    assert_int_equal(node_calendar_promised(&calendar, 8, 8), 3);
    assert_int_equal(node_calendar_promised(&calendar, 10, 10), 0);
}

static void a_promise_is_known_before_it_begins(void **state) {
    (void)state;
    assert_int_equal(node_calendar_promised(&calendar, 12, 21), 0);
    assert_int_equal(node_calendar_promised(&calendar, 12, 22), 4);
    assert_int_equal(node_calendar_promised(&calendar, 12, 24 + 7), 7);
    assert_int_equal(node_calendar_promised(&calendar, 4 * 24 + 4, 4 * 24 + 6), 7);
}

static void prices_follow_the_day(void **state) {
    (void)state;
    assert_true(node_calendar_price(&calendar, 3) == 0.5);
    assert_true(node_calendar_price(&calendar, 24 + 12) == 2);
    struct node_calendar even = {.period_ns = 288, .price = 3};
    assert_true(node_calendar_price_mean(&even) == 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(promises_add_up_and_go_over_midnight),
        cmocka_unit_test(a_promise_is_known_before_it_begins),
        cmocka_unit_test(prices_follow_the_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
