/* SPDX-License-Identifier: Apache-2.0
 * Protects decompositions without marks: those of Python 3.11's unicodedata, some of each kind. */
#include "base/unicode_base.h"

#include <uchar.h>

#include "base/unicode.h"
#include "test_case.h"

static void expect_base(uint32_t character, const char32_t *expected) {
    uint32_t out[UNICODE_BASE_LONGEST];
    unsigned count = unicode_base_of(character, out), wanted = 0;
    while (expected[wanted])
        wanted++;
    assert_int_equal(count, wanted);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(out[i], expected[i]);
}

TEST(marks_are_dropped_and_forms_resolved) {
    expect_base('a', U"a");
    expect_base(' ', U" ");
    expect_base(0xA0, U" ");
    expect_base(0xA8, U" ");
    expect_base(0xB2, U"2");
    expect_base(0xBD, U"1\u20442");
    expect_base(0xC5, U"A");
    expect_base(0xE9, U"e");
    expect_base(0xDF, U"ß");
    expect_base(0x130, U"I");
    expect_base(0x149, U"ʼn");
    expect_base(0x1EA7, U"a");
    expect_base(0x301, U"");
    expect_base(0x903, U"");
    expect_base(0x20DD, U"");
    expect_base(0x2460, U"1");
    expect_base(0x2126, U"Ω");
    expect_base(0x3000, U" ");
    expect_base(0x304C, U"か");
    expect_base(0x4E2D, U"中");
    expect_base(0xF900, U"豈");
    expect_base(0xFB01, U"fi");
    expect_base(0xFF21, U"A");
    expect_base(0xFF76, U"カ");
    expect_base(0xFF9E, U"");
    expect_base(0x1D400, U"A");
    expect_base(0x2F800, U"丽");
    expect_base(0x1F600, U"\U0001F600");
}

TEST(hangul_syllables_are_split) {
    expect_base(0xAC00, U"\u1100\u1161");
    expect_base(0xAC01, U"\u1100\u1161\u11A8");
    expect_base(0xD7A3, U"\u1112\u1175\u11C2");
    expect_base(0xD7A4, U"\uD7A4");
}

TEST(every_character_has_a_base) {
    uint32_t out[UNICODE_BASE_LONGEST], again[UNICODE_BASE_LONGEST], changed = 0;
    for (uint32_t character = 0; character <= UNICODE_LAST; character++) {
        unsigned count = unicode_base_of(character, out);
        assert_true(count <= UNICODE_BASE_LONGEST);
        changed += count != 1 || out[0] != character;
        for (unsigned i = 0; i < count; i++) { /* a base is its own base */
            assert_int_equal(unicode_base_of(out[i], again), 1);
            assert_int_equal(again[0], out[i]);
        }
    }
    assert_int_equal(changed, 5742 + 11172 + 2408);
}
