/* SPDX-License-Identifier: Apache-2.0
 * One step: blanks, literals, numbers and arrays.
 */
#include "matcher_cases.h"

static void blanks_are_bounded(void **state) {
    lets_through("true", "\n{ \"a\" : 1 ,\n\n    \"b\"\r\n:\t[ ] }");
    stops_before_last("true", " ");
    stops_before_last("true", "[   ");
    stops_before_last("true", "[\n\n\n");
    stops_before_last("true", "[ \n");
    stops_before_last("true", "[\r ");
    stops_before_last("true", "[] ");
    stops_before_last("true", "[\n                                         ");
}

static void arrays_end_within_their_bounds(void **state) {
    const char *pair =
        "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"},{\"type\":\"null\"}],"
        "\"items\":false,\"minItems\":2}";
    const char *contains = "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"maxItems\":3,"
                           "\"contains\":{\"minimum\":10},\"minContains\":2}";
    lets_through(pair, "[\"a\",null]");
    stops_before_last(pair, "[\"a\"]");
    stops_before_last(pair, "[\"a\",null,");
    lets_through(contains, "[1,10,11]");
    stops_before_last(contains, "[1,2,");
    stops_before_last(contains, "[1,10]");
}

static void items_that_must_differ_do(void **state) {
    const char *listed =
        "{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"ab\"]},\"uniqueItems\":true}";
    const char *freely =
        "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"uniqueItems\":true}";
    const char *few =
        "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":11},"
        "\"uniqueItems\":true}";
    lets_through(listed, "[\"ab\",\"a\"]");
    stops_before_last(listed, "[\"a\",\"a\"");
    stops_before_last(listed, "[\"a\",\"ab\",");
    lets_through(freely, "[\"x\",\"\\u0078y\"]");
    stops_before_last(freely, "[\"x\",\"\\u0078\"");
    lets_through(few, "[1,10,11]");
    stops_before_last(few, "[2,2");
    stops_before_last(few, "[1,10,11,1");
    const char *branch = "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":"
                         "\"^(a|b.*)$\"},\"uniqueItems\":true}";
    lets_through(branch, "[\"b\",\"a\",\"bb\"]");
    stops_before_last(branch, "[\"a\",\"a"); /* of what begins so, there is no other */
}

static void readings_go_side_by_side(void **state) {
    const char *either = "{\"anyOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"b\"],"
                         "\"type\":\"object\"},{\"properties\":{\"a\":{\"const\":12}},"
                         "\"required\":[\"c\"],\"type\":\"object\"}]}";
    lets_through(either, "{\"a\":1,\"b\":0}");
    lets_through(either, "{\"a\":12,\"c\":0}");
    stops(either, "{\"a\":12,\"b\":0}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blanks_are_bounded),
        cmocka_unit_test(arrays_end_within_their_bounds),
        cmocka_unit_test(items_that_must_differ_do),
        cmocka_unit_test(readings_go_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
