/* SPDX-License-Identifier: Apache-2.0
 * Protects that the binary carries the files of twin/, whole, and that all of them can be read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "hardware_of.h"

static void every_file_of_the_binary_is_read(void **state) {
    (void)state;
    const char *name;
    uint32_t hardware = 0, models = 0;
    for (; (name = builtin_name(BUILTIN_HARDWARE, hardware)); hardware++)
        assert_string_equal(hardware_with(name, NULL, 0).name, name);
    for (; (name = builtin_name(BUILTIN_MODEL, models)); models++)
        assert_string_equal(model_named(name).name, name);
    assert_int_equal(hardware, 3);
    assert_int_equal(models, 2);
}

static void a_name_of_another_kind_is_not_found(void **state) {
    (void)state;
    assert_null(builtin_text(BUILTIN_MODEL, BYTES_LITERAL("h800")).data);
    assert_null(builtin_text(BUILTIN_HARDWARE, BYTES_LITERAL("h80")).data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_file_of_the_binary_is_read, begin_tree),
        cmocka_unit_test(a_name_of_another_kind_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
