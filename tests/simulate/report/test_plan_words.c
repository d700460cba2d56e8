/* SPDX-License-Identifier: Apache-2.0
 * The cheapest fleet that holds comes first, and each other one says why it lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "simulate/report/plan_words.h"

static struct plan_found found;

static void the_cheapest_comes_first_and_others_say_why_they_lost(void **state) {
    (void)state;
    found = (struct plan_found){.count = 3};
    found.fleets[0] = (struct size_fleet){.verdict = SIZE_BOUND, .least_nodes = 9, .nodes = 9};
    found.fleets[1] = (struct size_fleet){.verdict = SIZE_HOLDS, .nodes = 8, .trials = 1};
    found.fleets[2] = (struct size_fleet){.verdict = SIZE_HOLDS, .nodes = 5, .trials = 2};
    assert_true(plan_words_judge(&found));
    assert_true(found.fleets[0].nodes == 5);
    assert_string_equal(found.fleets[0].why, "");
    assert_string_equal(found.fleets[1].why, "3 nodes more");
    assert_string_equal(found.fleets[2].why, "needs at least 9 nodes: 4 more; not run");
}

static void nothing_is_judged_where_no_fleet_holds(void **state) {
    (void)state;
    found = (struct plan_found){.count = 1};
    found.fleets[0] = (struct size_fleet){.verdict = SIZE_MISSES, .trials = 1};
    assert_false(plan_words_judge(&found));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cheapest_comes_first_and_others_say_why_they_lost),
        cmocka_unit_test(nothing_is_judged_where_no_fleet_holds),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
