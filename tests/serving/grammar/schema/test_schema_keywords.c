/* SPDX-License-Identifier: Apache-2.0
 * Protects keywords that combine schemas.
 */
#include "schema_cases.h"

TEST(all_of_and_neighbours_hold_together) {
    holds("{\"type\":\"object\",\"allOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}",
          "[{\"a\":1,\"b\":1}]", "[{\"a\":1},1]");
}

TEST(one_of_holds_what_one_alone_does) {
    holds("{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}", "[1,2.5,\"x\"]", "[3,1.5]");
}

TEST(one_of_reports_objects_apart_by_a_constant) {
    holds("{\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"},\"v\":{\"type\":\"integer\"}},"
          "\"required\":[\"k\"]},{\"properties\":{\"k\":{\"const\":\"b\"},\"v\":{\"type\":"
          "\"string\"}},\"required\":[\"k\"]}]}",
          "[{\"k\":\"a\",\"v\":1},{\"k\":\"b\",\"v\":\"x\"}]",
          "[{\"k\":\"a\",\"v\":\"x\"},{\"v\":1}]");
}

TEST(if_chooses_then_or_else) {
    holds("{\"type\":\"object\",\"if\":{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]"
          "},\"then\":{\"required\":[\"a\"]},\"else\":{\"required\":[\"b\"]}}",
          "[{\"k\":1,\"a\":1},{\"k\":2,\"b\":1},{\"b\":1}]", "[{\"k\":1,\"b\":1},{\"a\":1}]");
}

TEST(a_type_may_be_a_list) {
    holds("{\"type\":[\"integer\",\"null\"]}", "[1,null]", "[1.5,\"a\"]");
    refuses("{\"type\":\"text\"}", STATUS_INVALID, "#/type: must be null");
}

TEST(a_boolean_is_a_schema) {
    holds("true", "[1,{}]", "[]");
    refuses("false", STATUS_INVALID, "#: no value fulfils the schema");
}
