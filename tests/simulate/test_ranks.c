/* SPDX-License-Identifier: Apache-2.0
 * Protects the figures of simulated ranks: spreads are weighed by the time of the steps that had
 * them.
 */
#include "simulate/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void spreads_are_weighed_by_time(void **state) {
    struct ranks_report report = {.measured_ns = 0};
    ranks_note(&report, 100, 4, (const double[]){10, 1}, (const double[]){20, 4});
    assert_true(report.spread[0] == 2 && report.spread[1] == 1);
    ranks_note(&report, 300, 4, (const double[]){5, 4}, (const double[]){20, 4});
    assert_true(report.spread[0] == 1.25 && report.spread[1] == 3.25);
    assert_true(report.measured_ns == 400);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spreads_are_weighed_by_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
