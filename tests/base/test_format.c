/* SPDX-License-Identifier: Apache-2.0
 * Protects the bound of formatted text.
 */
#include "base/format.h"

#include "test_case.h"

TEST(it_returns_what_was_written) {
    char out[8];
    assert_int_equal(format_text(out, sizeof out, "%d", 12345), 5);
    assert_string_equal(out, "12345");
    assert_int_equal(format_text(out, sizeof out, "%s", ""), 0);
    assert_string_equal(out, "");
}

TEST(it_never_writes_past_the_end) {
    char out[10] = "zzzzzzzzz";
    assert_int_equal(format_text(out, 4, "%s", "abcdef"), 3);
    assert_string_equal(out, "abc");
    assert_memory_equal(out + 4, "zzzzz", 6);
    assert_int_equal(format_text(out, 1, "abc"), 0);
    assert_string_equal(out, "");
}

static void assert_visible(const char *text, const char *expected) {
    char out[200];
    assert_int_equal(format_visible(out, sizeof out, text), strlen(expected));
    assert_string_equal(out, expected);
    assert_true(FORMAT_SAFE_BYTES(strlen(text)) > strlen(expected));
}

TEST(what_others_wrote_moves_no_terminal) {
    assert_visible("acme", "acme");
    assert_visible("", "");
    assert_visible("\x1b[31mred\n", "\\x1b[31mred\\x0a");
    assert_visible("\x7f\xc2\x9b"
                   "2J",
                   "\\x7f\\xc2\\x9b2J"); /* CSI as one character */
    assert_visible("a\tb\rc", "a\\x09b\\x0dc");
    assert_visible("\u00fcber \u20ac \U0001F600", "\u00fcber \u20ac \U0001F600");
    assert_visible("\u202etxt.exe", "\\xe2\\x80\\xaetxt.exe");
    assert_visible("a\u200bb\u2066", "a\\xe2\\x80\\x8bb\\xe2\\x81\\xa6");
}

TEST(what_is_no_utf8_is_shown_byte_by_byte) {
    assert_visible("\xff", "\\xff");
    assert_visible("\xc0\x9b", "\\xc0\\x9b"); /* an escape, longer than it may be */
    assert_visible("\xe0\x80\x9b", "\\xe0\\x80\\x9b");
    assert_visible("\xed\xa0\x80", "\\xed\\xa0\\x80"); /* half of a pair */
    assert_visible("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");
    assert_visible("\xe2\x82", "\\xe2\\x82");
    assert_visible("\xc3(", "\\xc3(");
}

TEST(a_cut_text_ends_behind_a_whole_character) {
    char out[8];
    assert_int_equal(format_visible(out, 7, "abc\x1b"), 3);
    assert_string_equal(out, "abc");
    assert_int_equal(format_visible(out, 5, "ab\u20ac"), 2);
    assert_int_equal(format_cell(out, 6, "a,bcdefg"), 5);
    assert_string_equal(out, "\"a,b\"");
    assert_int_equal(format_visible(out, 1, "abc"), 0);
}

static void assert_cell(const char *text, const char *expected) {
    char out[100];
    assert_int_equal(format_cell(out, sizeof out, text), strlen(expected));
    assert_string_equal(out, expected);
    assert_true(FORMAT_SAFE_BYTES(strlen(text)) > strlen(expected));
}

TEST(no_cell_is_a_formula_or_two_cells) {
    assert_cell("acme", "acme");
    assert_cell("", "");
    assert_cell("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0");
    assert_cell("+1", "'+1");
    assert_cell("-1", "'-1");
    assert_cell("@SUM(A1)", "'@SUM(A1)");
    assert_cell("\t=1", "'\\x09=1");
    assert_cell("\r=1", "\"'\\x0d=1\"");
    assert_cell("a,b", "\"a,b\"");
    assert_cell("=\"a\",b", "\"'=\"\"a\"\",b\"");
    assert_cell("a\n=b", "\"a\\x0a=b\"");
    assert_cell("\"", "\"\"\"\"");
}
