/* SPDX-License-Identifier: Apache-2.0
 * Objects: properties stand once and in any order, what is required comes, and counts are kept.
 */
#include "matcher_cases.h"

TEST(properties_come_in_any_order_and_once) {
    const char *two =
        "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"a\"]}";
    lets_through(two, "{\"b\":1,\"c\":2,\"a\":3}");
    stops_before_last(two, "{\"b\":1}");
    stops_before_last(two, "{\"a\":1,\"a\"");
    lets_through(two, "{\"a\":1,\"a b\":2}");
}

TEST(places_are_kept_for_what_is_required) {
    const char *full =
        "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"a\"],"
        "\"maxProperties\":2}";
    lets_through(full, "{\"b\":1,\"a\":3}");
    stops(full, "{\"b\":1,\"c\":1}");
    stops_before_last(full, "{\"b\":1,\"a\":3,");
}

TEST(dependencies_come_too) {
    const char *rule = "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}},"
                       "\"dependentRequired\":{\"a\":[\"b\"]}}";
    lets_through(rule, "{\"b\":1}");
    lets_through(rule, "{\"a\":1,\"b\":1}");
    stops_before_last(rule, "{\"a\":1}");
}

TEST(another_key_counts_once) {
    const char *least = "{\"type\":\"object\",\"minProperties\":2}";
    lets_through(least, "{\"x\":1,\"y\":1}");
    stops_before_last(least, "{\"x\":1,\"x\":1}");
    lets_through(least, "{\"x\":1,\"x\":1,\"z\":1}");
}

TEST(in_order_enough_properties_are_left) {
#define IN_ORDER(schema) "{\"in_order\":true,\"schema\":" schema "}"
    const char *closed =
        IN_ORDER("{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},"
                 "\"additionalProperties\":false,\"minProperties\":2}");
    const char *open = IN_ORDER("{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},"
                                "\"minProperties\":2}");
    assert_int_equal(form_reach(closed, "{\"c"), 2); /* none may come behind it */
    assert_int_equal(form_reach(closed, "{\"b\":1}"), 6);
    assert_int_equal(form_reach(closed, "{\"b\":1,\"c\":1}"), 14);
    assert_int_equal(form_reach(closed, "{\"a\":1,\"c\":1}"), 14);
    assert_int_equal(form_reach(open, "{\"c\":1,\"x\":1}"), 14);
}
