/* SPDX-License-Identifier: Apache-2.0
 * Protects characters: UTF-8 both ways, and what Python 3.11 says about some of each kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "serving/jinja/unicode.h"

static void every_character_reads_back(void **state) {
    for (uint32_t character = 1; character < 0x110000; character++) {
        char bytes[4];
        unsigned read;
        if (character == 0xD800) character = 0xE000;
        unsigned written = unicode_write(character, bytes);
        assert_int_equal(unicode_read(bytes, &read), character);
        assert_int_equal(read, written);
        assert_true(unicode_valid(bytes, written));
        assert_int_equal(unicode_count(bytes, written), 1);
    }
}

static void broken_bytes_are_not_valid(void **state) {
    assert_false(unicode_valid("\x80", 1));
    assert_false(unicode_valid("\xC3", 1));
    assert_false(unicode_valid("\xC0\x80", 2));
    assert_false(unicode_valid("\xED\xA0\x80", 3));
    assert_false(unicode_valid("\xF4\x90\x80\x80", 4));
    assert_false(unicode_valid("a\xE2\x82", 3));
    assert_true(unicode_valid("a\xE2\x82\xAC", 4));
}

static void properties_are_those_of_python(void **state) {
    static const struct {
        uint32_t character;
        unsigned has, lacks;
    } rows[] = {
        {'a', UNICODE_ALPHA | UNICODE_IS_LOWER | UNICODE_PRINTABLE, UNICODE_IS_UPPER},
        {'Z', UNICODE_ALPHA | UNICODE_IS_UPPER, UNICODE_IS_LOWER | UNICODE_SPACE},
        {'7', UNICODE_DECIMAL | UNICODE_DIGIT | UNICODE_NUMERIC, UNICODE_ALPHA},
        {0xB2, UNICODE_DIGIT | UNICODE_NUMERIC, UNICODE_DECIMAL},
        {0xBD, UNICODE_NUMERIC, UNICODE_DIGIT},
        {0x1C5, UNICODE_IS_TITLE | UNICODE_ALPHA, UNICODE_IS_UPPER | UNICODE_IS_LOWER},
        {0x4E2D, UNICODE_ALPHA | UNICODE_PRINTABLE, UNICODE_CASED},
        {' ', UNICODE_SPACE | UNICODE_PRINTABLE, UNICODE_ALPHA},
        {0x1C, UNICODE_SPACE, UNICODE_PRINTABLE},
        {0xA0, UNICODE_SPACE, UNICODE_PRINTABLE},
        {0x200B, 0, UNICODE_SPACE | UNICODE_PRINTABLE},
        {0x3000, UNICODE_SPACE, UNICODE_PRINTABLE},
        {0xE000, 0, UNICODE_PRINTABLE},
        {0x1F600, UNICODE_PRINTABLE, UNICODE_ALPHA},
        {'_', UNICODE_NAME_START | UNICODE_NAME_PART, UNICODE_ALPHA},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned properties = unicode_properties(rows[i].character);
        assert_int_equal(properties & rows[i].has, rows[i].has);
        assert_int_equal(properties & rows[i].lacks, 0);
    }
}

static void case_is_mapped_to_one_or_several(void **state) {
    uint32_t out[3];
    assert_int_equal(unicode_map('a', UNICODE_TO_UPPER, out), 1);
    assert_int_equal(out[0], 'A');
    assert_int_equal(unicode_map(0xDF, UNICODE_TO_UPPER, out), 2);
    assert_int_equal(out[0], 'S');
    assert_int_equal(out[1], 'S');
    assert_int_equal(unicode_map(0xFB03, UNICODE_TO_UPPER, out), 3);
    assert_int_equal(out[2], 'I');
    assert_int_equal(unicode_map(0x130, UNICODE_TO_LOWER, out), 2);
    assert_int_equal(out[1], 0x307);
    assert_int_equal(unicode_map(0x1C6, UNICODE_TO_TITLE, out), 1);
    assert_int_equal(out[0], 0x1C5);
    assert_int_equal(unicode_map(0xDF, UNICODE_TO_FOLD, out), 2);
    assert_int_equal(unicode_map(0x4E2D, UNICODE_TO_LOWER, out), 1);
    assert_int_equal(out[0], 0x4E2D);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_reads_back),
        cmocka_unit_test(broken_bytes_are_not_valid),
        cmocka_unit_test(properties_are_those_of_python),
        cmocka_unit_test(case_is_mapped_to_one_or_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
