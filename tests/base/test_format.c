/* SPDX-License-Identifier: Apache-2.0
 * Protects the bound of formatted text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/format.h"

static void it_returns_what_was_written(void **state) {
    char out[8];
    assert_int_equal(format_text(out, sizeof out, "%d", 12345), 5);
    assert_string_equal(out, "12345");
    assert_int_equal(format_text(out, sizeof out, "%s", ""), 0);
    assert_string_equal(out, "");
}

static void it_never_writes_past_the_end(void **state) {
    char out[10] = "zzzzzzzzz";
    assert_int_equal(format_text(out, 4, "%s", "abcdef"), 3);
    assert_string_equal(out, "abc");
    assert_memory_equal(out + 4, "zzzzz", 6);
    assert_int_equal(format_text(out, 1, "abc"), 0);
    assert_string_equal(out, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_returns_what_was_written),
        cmocka_unit_test(it_never_writes_past_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
