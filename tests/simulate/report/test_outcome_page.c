/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/outcome_page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "small_outcome.h"

/* It opens anywhere and asks nobody for anything. */
static void a_page_needs_nothing_from_elsewhere(void **state) {
    (void)state;
    small_outcome_make();
    const char *text = small_outcome_text(outcome_page_write);
    assert_null(strstr(text, "<script"));
    assert_null(strstr(text, "http"));
    assert_null(strstr(text, "<run>"));
    assert_non_null(strstr(text, "a &lt;run&gt;"));
    assert_non_null(strstr(text, "prefers-color-scheme:dark"));
    assert_non_null(strstr(text, "</html>"));
}

static void parameters_say_where_they_come_from(void **state) {
    (void)state;
    small_outcome_make();
    const char *text = small_outcome_text(outcome_page_write);
    assert_non_null(strstr(text, ">x</td><td class=\"n\">3</td><td class=\"soft\">a page<"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_needs_nothing_from_elsewhere),
        cmocka_unit_test(parameters_say_where_they_come_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
