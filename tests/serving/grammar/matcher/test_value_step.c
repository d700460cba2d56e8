/* SPDX-License-Identifier: Apache-2.0
 * Steps of values: arrays, numbers, strings and literals.
 */
#include "matcher_cases.h"

TEST(arrays_end_within_their_bounds) {
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

TEST(items_that_must_differ_do) {
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
