/* SPDX-License-Identifier: Apache-2.0
 * Protects messages: always terminated, one line, cut when too long, and a name for every status.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/format.h"
#include "base/status.h"

static void every_status_has_a_name(void **state) {
    for (int status = 0; status < STATUS_COUNT; status++) {
        assert_true(strlen(status_name((enum status)status)) > 1);
        for (int other = 0; other < status; other++)
            assert_string_not_equal(status_name((enum status)status),
                                    status_name((enum status)other));
    }
}

static void setting_an_error_returns_its_status(void **state) {
    struct error error;
    assert_int_equal(error_set(&error, STATUS_CORRUPT, "%s: %d", "file", 7), STATUS_CORRUPT);
    assert_string_equal(error.text, "file: 7");
    assert_int_equal(error_set(NULL, STATUS_IO, "nobody listens"), STATUS_IO);
}

static void long_messages_are_cut(void **state) {
    struct error error;
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(error_set(&error, STATUS_IO, "%s", text), STATUS_IO);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
}

static void messages_are_one_line(void **state) {
    struct error error;
    assert_int_equal(error_set(&error, STATUS_IO, "%s: no file", "a\nb\x1b[1m\x7f"), STATUS_IO);
    assert_string_equal(error.text, "a?b?[1m?: no file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(setting_an_error_returns_its_status),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(messages_are_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
