/* SPDX-License-Identifier: Apache-2.0
 * Protects what is told of a YAML text that is not taken: what is wrong first of all, and where,
 * cut where it is too long.
 */
#include "host/process/yaml_complaint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct yaml_complaint complaint;

static void say(const cyaml_config_t *settings, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    settings->log_fn(CYAML_LOG_ERROR, settings->log_ctx, format, arguments);
    va_end(arguments);
}

static void the_first_complaint_and_its_place_are_kept(void **state) {
    memset(&complaint, 0, sizeof complaint);
    cyaml_config_t settings = yaml_complaint_settings(&complaint);
    say(&settings, "Load: Backtrace:\n");
    say(&settings, "Load: Invalid %s value: '%s'\n", "INT", "x");
    say(&settings, "Load: Unexpected event\n");
    say(&settings, "  in mapping field '%s' (line: %d)\n", "port", 3);
    say(&settings, "  in root mapping\n");
    assert_string_equal(complaint.what, "Invalid INT value: 'x'");
    assert_string_equal(complaint.where, "  in mapping field 'port' (line: 3)" + 1);
}

static void long_complaints_are_cut(void **state) {
    char text[400];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    memset(&complaint, 0, sizeof complaint);
    cyaml_config_t settings = yaml_complaint_settings(&complaint);
    say(&settings, "Load: %s\n", text);
    say(&settings, "  in %s\n", text);
    assert_in_range(strlen(complaint.what), 100, sizeof complaint.what - 1);
    assert_in_range(strlen(complaint.where), 50, sizeof complaint.where - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_complaint_and_its_place_are_kept),
        cmocka_unit_test(long_complaints_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
