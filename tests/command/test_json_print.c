/* SPDX-License-Identifier: Apache-2.0
 * Protects the JSON that programs print: commas and brackets are right at any depth, strings are
 * escaped, and numbers that JSON does not have are null.
 */
#include "command/json_print.h"

#include <math.h>

#include "test_case.h"

/* Returns what a function prints to stdout; the caller frees it. */
static char *printed(void (*print)(struct json_print *), bool off) {
    FILE *before = stdout;
    char *text = NULL;
    size_t count = 0;
    struct json_print out = {.off = off};
    stdout = open_memstream(&text, &count);
    assert_non_null(stdout);
    print(&out);
    fclose(stdout);
    stdout = before;
    return text;
}

static void print_all(struct json_print *print) {
    json_print_open(print, NULL, '{');
    json_print_text(print, "text", "a \"b\"\n");
    json_print_text(print, "none", NULL);
    json_print_open(print, "list", '[');
    json_print_count(print, NULL, UINT64_MAX);
    json_print_integer(print, NULL, -5);
    json_print_close(print);
    json_print_open(print, "empty", '{');
    json_print_close(print);
    json_print_bool(print, "yes", true);
    json_print_number(print, "third", 1.0 / 3, 3);
    json_print_number(print, "infinite", INFINITY, 3);
    json_print_decimal(print, "money", "1.50");
    json_print_values(print, "\"a\":%u,\"b\":%.3g", 7u, 0.5);
    json_print_close(print);
}

TEST(values_have_commas_between_and_brackets_around_them) {
    char *text = printed(print_all, false);
    assert_string_equal(text,
                        "{\"text\":\"a \\\"b\\\"\\n\",\"none\":null,"
                        "\"list\":[18446744073709551615,-5],\"empty\":{},\"yes\":true,"
                        "\"third\":0.333,\"infinite\":null,\"money\":1.50,\"a\":7,\"b\":0.5}\n");
    free(text);
}

TEST(nothing_is_printed_where_results_are_text) {
    char *text = printed(print_all, true);
    assert_string_equal(text, "");
    free(text);
}

static void print_long(struct json_print *print) {
    char text[4096]; /* of characters of two bytes, which no piece may split */
    text[0] = 'x';
    text[sizeof text - 1] = 'x';
    for (size_t i = 1; i + 1 < sizeof text; i++)
        text[i] = i % 2 ? '\xC3' : '\xA9';
    json_print_string(print, NULL, (struct bytes){text, sizeof text});
}

TEST(a_long_string_is_printed_whole) {
    char *text = printed(print_long, false);
    assert_int_equal(strlen(text), 4096 + 2);
    assert_memory_equal(text + 1, "x\xC3\xA9\xC3\xA9", 5);
    assert_memory_equal(text + 4096 - 2, "\xC3\xA9x\"", 4);
    free(text);
}
