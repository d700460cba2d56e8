/* SPDX-License-Identifier: Apache-2.0
 * Protects messages: always terminated, one line, cut when too long, and a name for every status.
 */
#include "base/format.h"
#include "base/status.h"
#include "test_case.h"

TEST(every_status_has_a_name) {
    for (int status = 0; status < STATUS_COUNT; status++) {
        assert_true(strlen(status_name((enum status)status)) > 1);
        for (int other = 0; other < status; other++)
            assert_string_not_equal(status_name((enum status)status),
                                    status_name((enum status)other));
    }
}

TEST(setting_an_error_returns_its_status) {
    struct error error;
    assert_int_equal(error_set(&error, STATUS_CORRUPT, "%s: %d", "file", 7), STATUS_CORRUPT);
    assert_string_equal(error.text, "file: 7");
    assert_int_equal(error_set(NULL, STATUS_IO, "nobody listens"), STATUS_IO);
}

TEST(long_messages_are_cut) {
    struct error error;
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(error_set(&error, STATUS_IO, "%s", text), STATUS_IO);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
}

TEST(messages_are_one_line) {
    struct error error;
    assert_int_equal(error_set(&error, STATUS_IO, "%s: no file", "a\nb\x1b[1m\x7f"), STATUS_IO);
    assert_string_equal(error.text, "a?b?[1m?: no file");
}
