/* SPDX-License-Identifier: Apache-2.0
 * Whitespace within JSON, and parallel stacks.
 */
#include "matcher_cases.h"

TEST(blanks_are_bounded) {
    lets_through("true", "\n{ \"a\" : 1 ,\n\n    \"b\"\r\n:\t[ ] }");
    stops_before_last("true", " ");
    stops_before_last("true", "[   ");
    stops_before_last("true", "[\n\n\n");
    stops_before_last("true", "[ \n");
    stops_before_last("true", "[\r ");
    stops_before_last("true", "[] ");
    stops_before_last("true", "[\n                                         ");
}

TEST(readings_go_side_by_side) {
    const char *either = "{\"anyOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"b\"],"
                         "\"type\":\"object\"},{\"properties\":{\"a\":{\"const\":12}},"
                         "\"required\":[\"c\"],\"type\":\"object\"}]}";
    lets_through(either, "{\"a\":1,\"b\":0}");
    lets_through(either, "{\"a\":12,\"c\":0}");
    stops(either, "{\"a\":12,\"b\":0}");
}
