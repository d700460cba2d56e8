/* SPDX-License-Identifier: Apache-2.0
 * Protects what Unicode and Python 3.11 say about characters, some of each kind. */
#include "base/unicode.h"

#include "test_case.h"

TEST(categories_come_in_runs_without_gaps) {
    uint32_t last = 0, runs = 0;
    for (uint32_t first = 0; first <= UNICODE_LAST; first = last + 1, runs++) {
        enum unicode_category category = unicode_run(first, &last);
        uint32_t same;
        assert_in_range(last, first, UNICODE_LAST);
        assert_int_equal(unicode_run(last, &same), category);
        assert_int_equal(same, last);
    }
    assert_true(runs > 3000);
}

TEST(properties_are_those_of_python) {
    enum { LOWER = 8, UPPER = 16, CASED = 32, SPACE = 64, SHOWN = 128 };
    static const struct {
        uint32_t character;
        unsigned properties;
    } rows[] = {
        {'a', LOWER | CASED | SHOWN},
        {'Z', UPPER | CASED | SHOWN},
        {'7', SHOWN},
        {0xB2, SHOWN},
        {0xBD, SHOWN},
        {0xAA, LOWER | CASED | SHOWN},
        {0x100, UPPER | CASED | SHOWN},
        {0x101, LOWER | CASED | SHOWN},
        {0x1C5, CASED | SHOWN},
        {0x2160, UPPER | CASED | SHOWN},
        {0x4E2D, SHOWN},
        {' ', SPACE | SHOWN},
        {0x1C, SPACE},
        {0xA0, SPACE},
        {0x200B, 0},
        {0x3000, SPACE},
        {0xE000, 0},
        {0x1F600, SHOWN},
        {'_', SHOWN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t c = rows[i].character;
        unsigned found = (unicode_is_lower(c) ? LOWER : 0) | (unicode_is_upper(c) ? UPPER : 0) |
                         (unicode_is_cased(c) ? CASED : 0) | (unicode_is_space(c) ? SPACE : 0) |
                         (unicode_is_printable(c) ? SHOWN : 0);
        assert_int_equal(found, rows[i].properties);
    }
    assert_true(unicode_is_ignorable('.') && unicode_is_ignorable(0x301));
    assert_false(unicode_is_ignorable('a') || unicode_is_ignorable(','));
}

TEST(case_is_mapped_to_one_or_several) {
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
    assert_int_equal(unicode_map(0xDF, UNICODE_TO_TITLE, out), 2);
    assert_int_equal(out[1], 's');
    assert_int_equal(unicode_map(0x10D0, UNICODE_TO_UPPER, out), 1);
    assert_int_equal(out[0], 0x1C90);
    assert_int_equal(unicode_map(0x10D0, UNICODE_TO_TITLE, out), 1);
    assert_int_equal(out[0], 0x10D0);
    assert_int_equal(unicode_map(0x1F80, UNICODE_TO_TITLE, out), 1);
    assert_int_equal(out[0], 0x1F88);
    assert_int_equal(unicode_map(0x4E2D, UNICODE_TO_LOWER, out), 1);
    assert_int_equal(out[0], 0x4E2D);
}
