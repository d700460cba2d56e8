/* SPDX-License-Identifier: Apache-2.0
 * Protects how benchmarks print their results: the same figures as a table and as JSON.
 */
#include "bench/harness.h"

#include <math.h>

#include "base/check.h"
#include "test_case.h"

static const struct harness_column columns[] = {
    {"name", "name", -6, 0, 0},         {"seconds", "ms", 6, 1, 1e3}, {NULL, "GB/s", 5, 2, 0},
    {"tcp.low", NULL, 0, 0, 0},         {"tcp.high", NULL, 0, 0, 0},  {"of_tcp", "%", 4, 0, 100},
    {"warm", NULL, 0, HARNESS_FLAG, 0},
};
static const struct harness_table table = {columns, ARRAY_COUNT(columns)};

static void print_report(bool json) {
    static const char *const first[] = {"one"}, *const second[] = {"two"};
    struct json_print out = json_print_begin(json);
    json_print_say(&out, "%d rounds\n", 3);
    harness_number(&out, "rounds", 3);
    json_print_open(&out, "cases", '[');
    harness_titles(&out, &table);
    harness_row(&out, NULL, &table, first, (const double[]){0.5, 1.25, 1, 2, 0.5, 1});
    harness_row(&out, NULL, &table, second, (const double[]){0.0625, NAN, 1.5, 2, NAN, 0});
    json_print_close(&out);
    json_print_close(&out);
}

static char *printed(bool json) {
    FILE *before = stdout;
    char *text = NULL;
    size_t count = 0;
    stdout = open_memstream(&text, &count);
    assert_non_null(stdout);
    print_report(json);
    fclose(stdout);
    stdout = before;
    return text;
}

TEST(the_table_has_titles_and_a_line_for_each_row) {
    char *text = printed(false);
    assert_string_equal(text, "3 rounds\n"
                              "name       ms  GB/s    % \n"
                              "one     500.0  1.25   50 \n"
                              "two      62.5            \n");
    free(text);
}

TEST(the_json_has_an_object_for_each_row) {
    char *text = printed(true);
    assert_string_equal(text,
                        "{\"rounds\":3,\"cases\":[\n"
                        "{\"name\":\"one\",\"seconds\":0.5,\"tcp\":{\"low\":1,\"high\":2},"
                        "\"of_tcp\":0.5,\"warm\":true},\n"
                        "{\"name\":\"two\",\"seconds\":0.0625,\"tcp\":{\"low\":1.5,\"high\":2},"
                        "\"of_tcp\":null,\"warm\":false}]}\n");
    free(text);
}
