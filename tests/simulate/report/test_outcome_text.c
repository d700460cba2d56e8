/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/report/outcome_text.h"

#include "small_outcome.h"
#include "test_case.h"

TEST(a_table_has_roles_times_and_money) {
    small_outcome_make();
    const char *text = small_outcome_text(outcome_text_write);
    assert_non_null(strstr(text, "a <run>, seed 5: 10 s measured"));
    assert_non_null(strstr(text, "\nboth "));
    assert_null(strstr(text, "\nprefill ")); /* there are none */
    assert_non_null(strstr(text, "TTFT"));
    assert_non_null(strstr(text, "cost 32.00 USD an hour"));
}
