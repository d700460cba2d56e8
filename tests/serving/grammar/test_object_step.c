/* SPDX-License-Identifier: Apache-2.0
 * Objects: properties stand once and in any order, what is required comes, and counts are kept.
 */
#include "matcher_cases.h"

static void properties_come_in_any_order_and_once(void **state) {
    const char *two =
        "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"a\"]}";
    (void)state;
    lets_through(two, "{\"b\":1,\"c\":2,\"a\":3}");
    stops_before_last(two, "{\"b\":1}");
    stops_before_last(two, "{\"a\":1,\"a\"");
    lets_through(two, "{\"a\":1,\"a b\":2}");
}

static void places_are_kept_for_what_is_required(void **state) {
    const char *full =
        "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"a\"],"
        "\"maxProperties\":2}";
    (void)state;
    lets_through(full, "{\"b\":1,\"a\":3}");
    stops(full, "{\"b\":1,\"c\":1}");
    stops_before_last(full, "{\"b\":1,\"a\":3,");
}

static void dependencies_come_too(void **state) {
    const char *rule = "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},"
                       "\"dependentRequired\":{\"a\":[\"b\"]}}";
    (void)state;
    lets_through(rule, "{\"b\":1}");
    lets_through(rule, "{\"a\":1,\"b\":1}");
    stops_before_last(rule, "{\"a\":1}");
}

static void another_key_counts_once(void **state) {
    const char *least = "{\"type\":\"object\",\"minProperties\":2}";
    (void)state;
    lets_through(least, "{\"x\":1,\"y\":1}");
    stops_before_last(least, "{\"x\":1,\"x\":1}");
    lets_through(least, "{\"x\":1,\"x\":1,\"z\":1}");
}

/* Whether a text may come as a whole, of which the last byte is the first that could be refused. */
static bool comes_in_order(const char *schema, const char *text) {
    static char memory[2 * MATCHER_CASE_BYTES];
    struct matcher_case one = {.schema.options.in_order = true};
    if (case_compile(&one.schema, schema)) fail_msg("%s: %s", schema, one.schema.error.text);
    arena_over(&one.arena, memory, MATCHER_CASE_BYTES);
    arena_over(&one.scratch, memory + MATCHER_CASE_BYTES, MATCHER_CASE_BYTES);
    one.trie = case_trie(&one.arena, &one.scratch);
    assert_false(grammar_open(&one.arena, one.schema.program, one.trie, &one.grammar, &one.error));
    assert_false(matcher_open(&one.arena, one.grammar, &one.matcher));
    struct grammar_position at = matcher_begin(one.matcher);
    at = matcher_push(one.matcher, at, (struct bytes){text, strlen(text) - 1});
    if (!at.number) fail_msg("%s stops before the end of %s", schema, text);
    return matcher_push(one.matcher, at, bytes_of(text + strlen(text) - 1)).number;
}

static void in_order_enough_properties_are_left(void **state) {
    const char *closed = "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},"
                         "\"additionalProperties\":false,\"minProperties\":2}";
    const char *open = "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},"
                       "\"minProperties\":2}";
    (void)state;
    assert_true(comes_in_order(closed, "{\"b"));
    assert_false(comes_in_order(closed, "{\"c"));
    assert_false(comes_in_order(closed, "{\"b\":1}"));
    assert_true(comes_in_order(closed, "{\"b\":1,\"c\":1}"));
    assert_true(comes_in_order(closed, "{\"a\":1,\"c\":1}"));
    assert_true(comes_in_order(open, "{\"c\":1,\"x\":1}"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(properties_come_in_any_order_and_once),
        cmocka_unit_test(places_are_kept_for_what_is_required),
        cmocka_unit_test(dependencies_come_too),
        cmocka_unit_test(another_key_counts_once),
        cmocka_unit_test(in_order_enough_properties_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
