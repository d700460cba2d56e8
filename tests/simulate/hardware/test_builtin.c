/* SPDX-License-Identifier: Apache-2.0
 * Protects that the binary carries the files of twin/, whole, and that all of them can be read.
 */

#include "hardware_of.h"
#include "test_case.h"

TEST_AROUND(every_file_of_the_binary_is_read, begin_tree, NULL) {
    const char *name;
    uint32_t hardware = 0, models = 0;
    for (; (name = builtin_name(BUILTIN_HARDWARE, hardware)); hardware++)
        assert_string_equal(hardware_with(name, NULL, 0).name, name);
    for (; (name = builtin_name(BUILTIN_MODEL, models)); models++)
        assert_string_equal(model_named(name).name, name);
    assert_int_equal(hardware, 3);
    assert_int_equal(models, 2);
}

TEST(a_name_of_another_kind_is_not_found) {
    assert_null(builtin_text(BUILTIN_MODEL, BYTES_LITERAL("h800")).data);
    assert_null(builtin_text(BUILTIN_HARDWARE, BYTES_LITERAL("h80")).data);
}
