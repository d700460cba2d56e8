/* SPDX-License-Identifier: Apache-2.0
 * Protects commands that are waited for: what they print comes back, a code that is not 0 is an error with
 * their last line, one that hangs is killed in time, and a word is quoted as a shell reads it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/fleet/run_command.h"

static enum status run(const char *script, int timeout_ms, char *out, size_t room,
                       struct error *error) {
    struct command_line line = {.words = {"/bin/sh", "-c", script}, .count = 3};
    return run_command(&line, timeout_ms, out, room, error);
}

static void what_it_prints_comes_back(void **state) {
    (void)state;
    char out[64];
    struct error error;
    assert_int_equal(run("echo one; echo two >&2; echo three", 60000, out, sizeof out, &error),
                     STATUS_OK);
    assert_string_equal(out, "one\nthree\n");
    assert_int_equal(run("yes | head -c 100000", 60000, out, sizeof out, &error), STATUS_OK);
    assert_int_equal(strlen(out), sizeof out - 1); /* as much as there is room for */
}

static void what_goes_wrong_is_reported_by_its_last_line(void **state) {
    (void)state;
    char out[64];
    struct error error;
    assert_int_equal(
        run("echo first >&2; echo no such partition >&2; exit 3", 60000, out, sizeof out, &error),
        STATUS_IO);
    assert_string_equal(error.text, "/bin/sh: no such partition");
    struct command_line line = {.words = {"/nowhere/squeue"}, .count = 1};
    assert_int_equal(run_command(&line, 60000, out, sizeof out, &error), STATUS_IO);
    assert_non_null(strstr(error.text, "No such file"));
    assert_int_equal(run("sleep 1000 & sleep 1000", 50, out, sizeof out, &error), STATUS_TIMEOUT);
}

static void a_word_is_quoted_as_a_shell_reads_it(void **state) {
    (void)state;
    char out[64], script[128] = "printf %s ";
    struct error error;
    assert_true(run_command_quote(script, sizeof script, "it's $HOME; \"x\""));
    assert_int_equal(run(script, 60000, out, sizeof out, &error), STATUS_OK);
    assert_string_equal(out, "it's $HOME; \"x\"");
    char small[8] = "ab";
    assert_false(run_command_quote(small, sizeof small, "longer"));
    assert_string_equal(small, "ab");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_prints_comes_back),
        cmocka_unit_test(what_goes_wrong_is_reported_by_its_last_line),
        cmocka_unit_test(a_word_is_quoted_as_a_shell_reads_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
