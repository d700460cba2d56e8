/* SPDX-License-Identifier: Apache-2.0
 * Protects the reading of marks: what a text that may go on does not tell yet is neither found nor
 * given up.
 */
#include "serving/text/tool_cursor.h"
#include "support.h"
#include "test_case.h"

static struct tool_cursor over(const char *text, bool ends) {
    return (struct tool_cursor){.text = bytes_of(text), .ends = ends};
}

TEST(it_takes_marks_and_waits_for_cut_ones) {
    struct tool_cursor cursor = over("<a><b", false);
    assert_true(tool_cursor_sees(&cursor, "<a>"));
    assert_true(tool_cursor_takes(&cursor, "<a>"));
    assert_false(tool_cursor_takes(&cursor, "<c>") || cursor.found);
    assert_false(tool_cursor_takes(&cursor, "<b>"));
    assert_int_equal(cursor.found, TOOL_FOUND_CUT);
    assert_int_equal(cursor.at, 3);
    cursor = over("<b", true);
    assert_false(tool_cursor_takes(&cursor, "<b>") || cursor.found);
    tool_cursor_wants(&cursor, "<b>");
    assert_int_equal(cursor.found, TOOL_FOUND_NO);
}

TEST(it_does_nothing_once_it_has_failed) {
    struct tool_cursor cursor = over("x y", false);
    tool_cursor_wants(&cursor, "y");
    tool_cursor_wants(&cursor, "x");
    tool_cursor_space(&cursor);
    assert_int_equal(tool_cursor_name(&cursor).count, 0);
    assert_int_equal(tool_cursor_until(&cursor, "y").count, 0);
    assert_false(tool_cursor_at_end(&cursor) || tool_cursor_sees(&cursor, "x"));
    assert_int_equal(cursor.at, 0);
}

static enum tool_found name(const char *text, bool ends, const char *expected) {
    struct tool_cursor cursor = over(text, ends);
    struct bytes found = tool_cursor_name(&cursor);
    assert_true(cursor.found || bytes_equal(found, bytes_of(expected)));
    return cursor.found;
}

TEST(it_reads_names_up_to_a_byte_that_none_has) {
    char text[TOOL_NAME_BYTES_MAX + 3];
    assert_int_equal(name("get_x.1-ä<", false, "get_x.1-ä"), TOOL_FOUND_YES);
    assert_int_equal(name("get", false, ""), TOOL_FOUND_CUT);
    assert_int_equal(name("get", true, ""), TOOL_FOUND_NO);
    assert_int_equal(name("", false, ""), TOOL_FOUND_CUT);
    assert_int_equal(name(" x", false, ""), TOOL_FOUND_NO);
    memset(text, 'n', sizeof text);
    strcpy(text + TOOL_NAME_BYTES_MAX, ">");
    text[TOOL_NAME_BYTES_MAX] = '\0';
    assert_true(tool_cursor_is_name(bytes_of(text)));
    assert_int_equal(name(text, false, ""), TOOL_FOUND_CUT);
    strcpy(text + TOOL_NAME_BYTES_MAX, "n>");
    assert_int_equal(name(text, false, ""), TOOL_FOUND_NO);
    assert_false(tool_cursor_is_name(BYTES_LITERAL("")) ||
                 tool_cursor_is_name(BYTES_LITERAL("a b")) ||
                 tool_cursor_is_name(BYTES_LITERAL("a\\n")));
}

TEST(it_reads_up_to_a_mark) {
    char text[TOOL_NAME_BYTES_MAX + 8];
    struct tool_cursor cursor = over("a <b</k>c", false);
    assert_true(bytes_equal(tool_cursor_until(&cursor, "</k>"), BYTES_LITERAL("a <b")));
    assert_int_equal(cursor.at, 8);
    cursor = over("a</k", false);
    (void)tool_cursor_until(&cursor, "</k>");
    assert_int_equal(cursor.found, TOOL_FOUND_CUT);
    for (size_t extra = 0; extra < 2; extra++) {
        memset(text, ' ', sizeof text);
        strcpy(text + TOOL_NAME_BYTES_MAX + extra, "</k>");
        cursor = over(text, false);
        (void)tool_cursor_until(&cursor, "</k>");
        assert_int_equal(cursor.found, extra ? TOOL_FOUND_NO : TOOL_FOUND_YES);
    }
}
