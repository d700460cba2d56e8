/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/outcome_page.h"

#include "small_outcome.h"
#include "test_case.h"

/* It opens anywhere and asks nobody for anything. */
TEST(a_page_needs_nothing_from_elsewhere) {
    small_outcome_make();
    const char *text = small_outcome_text(outcome_page_write);
    assert_null(strstr(text, "<script"));
    assert_null(strstr(text, "http"));
    assert_null(strstr(text, "<run>"));
    assert_non_null(strstr(text, "a &lt;run&gt;"));
    assert_non_null(strstr(text, "prefers-color-scheme:dark"));
    assert_non_null(strstr(text, "</html>"));
}

TEST(parameters_say_where_they_come_from) {
    small_outcome_make();
    const char *text = small_outcome_text(outcome_page_write);
    assert_non_null(strstr(text, ">x</td><td class=\"n\">3</td><td class=\"soft\">a page<"));
}
