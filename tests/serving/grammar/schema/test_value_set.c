/* SPDX-License-Identifier: Apache-2.0
 * Protects the algebra of sets of values: kinds that a difference leaves, numbers that are left.
 */
#include "schema_cases.h"

TEST(not_of_a_kind_leaves_the_others) {
    holds("{\"not\":{\"type\":[\"string\",\"null\"]}}", "[1,true,[],{}]", "[\"a\",null]");
}

TEST(not_of_numbers_leaves_the_other_numbers) {
    holds("{\"type\":\"number\",\"not\":{\"minimum\":5}}", "[4,-1,4.5]", "[5,6.5]");
    holds("{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}", "[1.5]", "[1,2.0]");
}

TEST(not_of_strings_leaves_the_other_strings) {
    holds("{\"type\":\"string\",\"not\":{\"pattern\":\"^a\"}}", "[\"b\",\"\"]", "[\"ab\"]");
}

TEST(a_union_joins_what_each_holds) {
    holds("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1},{\"enum\":["
          "\"abc\",null]}]}",
          "[1,\"a\",\"abc\",null]", "[1.5,\"ab\",true]");
}
