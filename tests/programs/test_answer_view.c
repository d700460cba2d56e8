/* SPDX-License-Identifier: Apache-2.0
 * A terminal gets lines that break between words, at any width and in any script, and no byte of an
 * answer that moves it.
 */
#include "programs/answer_view.h"

#include "test_case.h"
#include <locale.h>

static int use_utf8(void **state) {
    return uselocale(newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL)) ? 0 : -1;
}

TEST_GROUP(use_utf8, NULL)

/* Prints a text in pieces of `step` bytes that end between characters. */
static char *printed(unsigned columns, const char *prefix, const char *text, size_t step) {
    char *out = NULL;
    size_t count, bytes = strlen(text);
    FILE *file = open_memstream(&out, &count);
    struct answer_lines lines = {.out = file, .prefix = prefix};
    for (size_t at = 0; at < bytes;) {
        size_t end = at + step < bytes ? at + step : bytes;
        while (end < bytes && (text[end] & 0xC0) == 0x80)
            end++;
        answer_view_push_lines(&lines, columns, (struct bytes){text + at, end - at});
        at = end;
    }
    answer_view_flush_lines(&lines);
    fclose(file);
    return out;
}

static void check_printed(unsigned columns, const char *text, const char *wanted) {
    for (size_t step = 1; step < 20; step++) {
        char *out = printed(columns, NULL, text, step);
        assert_string_equal(out, wanted);
        free(out);
    }
}

TEST(lines_break_between_words) {
    check_printed(11, "one two three four", "one two\nthree four");
    check_printed(12, "0123456789 ab", "0123456789\nab");
    check_printed(11, "0123456789012345 ab", "0123456789\n012345 ab");
    check_printed(80, "one two three four", "one two three four");
    check_printed(20, "a\n\n  b\tc\r\nd", "a\n\n  b     c\nd");
}

TEST(no_line_is_wider_than_the_terminal) {
    char text[6000] = "";
    for (int i = 0; i < 400; i++)
        strcat(text, i % 3 ? "wörter " : i % 2 ? "漢字かな" : "x");
    const unsigned widths[] = {40, 80, 200};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        char *out = printed(widths[w], "| ", text, 7);
        unsigned widest = 0;
        for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n")) {
            unsigned width = 0;
            for (const char *at = line; *at; at++) {
                unsigned char byte = (unsigned char)*at;
                width += (byte & 0xC0) == 0x80 ? 0 : byte >= 0xE0 ? 2 : 1;
            }
            if (width > widest) widest = width;
            assert_memory_equal(line, "| ", 2);
        }
        assert_in_range(widest, widths[w] - 8, widths[w] - 1);
        free(out);
    }
}

TEST(wide_characters_take_two_columns) {
    check_printed(11, "漢字漢字漢字", "漢字漢字漢\n字");
    check_printed(11, "ab 漢字 cd", "ab 漢字 cd");
}

TEST(nothing_in_an_answer_moves_the_terminal) {
    check_printed(80, "a\x1b[31mb\x1b]0;t\x07 c\x7f", "a\\x1b[31mb\\x1b]0;t\\x07 c\\x7f");
    check_printed(80,
                  "a\xc2\x9b"
                  "31mb \xe2\x80\xaex",
                  "a\\xc2\\x9b31mb \\xe2\\x80\\xaex");
    check_printed(80,
                  "a\x08\x08"
                  "b",
                  "a\\x08\\x08b");
}

TEST(other_outputs_get_the_text_as_it_is) {
    char *out = NULL;
    size_t count;
    FILE *file = open_memstream(&out, &count);
    struct answer_lines lines = {.out = file, .verbatim = true};
    answer_view_push_lines(&lines, 0, BYTES_LITERAL("a\x1b[31m  b\r\n"));
    fclose(file);
    assert_string_equal(out, "a\x1b[31m  b\r\n");
    free(out);
}
