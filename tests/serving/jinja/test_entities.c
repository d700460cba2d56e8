/* SPDX-License-Identifier: Apache-2.0
 * Protects the entities of HTML: the longest name that a text begins with, and codes that browsers
 * take for others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "serving/jinja/entities.h"

static void names(const char *text, const char *characters, size_t bytes) {
    size_t used = 777;
    const char *found = entities_find(bytes_of(text), &used);
    if (!characters) {
        assert_null(found);
        return;
    }
    assert_non_null(found);
    assert_string_equal(found, characters);
    assert_int_equal(used, bytes);
}

static void the_longest_name_is_found(void **state) {
    names("amp;", "&", 4);
    names("amp", "&", 3);
    names("notin;", "∉", 6);
    names("notit;", "¬", 3);
    names("AElig;", "Æ", 6);
    names("zwnj;", "\342\200\214", 5);
    names("NotEqualTilde;", "≂̸", 14);
    names("hearts", NULL, 0); /* known with its semicolon alone */
    names("zzz;", NULL, 0);
    names("a", NULL, 0);
}

static void codes(uint32_t code, const char *characters) {
    char out[4];
    size_t bytes = entities_of_code(code, out);
    assert_int_equal(bytes, strlen(characters));
    assert_memory_equal(out, characters, bytes);
}

static void codes_are_what_browsers_make_of_them(void **state) {
    codes(65, "A");
    codes(0, "\357\277\275");
    codes(0x80, "€");
    codes(0x9F, "Ÿ");
    codes(0x81, "\302\201");
    codes(0xD800, "\357\277\275");
    codes(0x110000, "\357\277\275");
    codes(1, "");
    codes(0x0D, "\r");
    codes(0x1FFFE, "");
    codes(0x1F600, "😀");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_name_is_found),
        cmocka_unit_test(codes_are_what_browsers_make_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
