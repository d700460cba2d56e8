/* SPDX-License-Identifier: Apache-2.0
 * Protects keywords that combine schemas.
 */
#include "schema_cases.h"

static void all_of_and_neighbours_hold_together(void **state) {
    holds("{\"type\":\"object\",\"allOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}",
          "[{\"a\":1,\"b\":1}]", "[{\"a\":1},1]");
}

static void one_of_holds_what_one_alone_does(void **state) {
    holds("{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}", "[1,2.5,\"x\"]", "[3,1.5]");
}

static void one_of_reports_objects_apart_by_a_constant(void **state) {
    holds("{\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"},\"v\":{\"type\":\"integer\"}},"
          "\"required\":[\"k\"]},{\"properties\":{\"k\":{\"const\":\"b\"},\"v\":{\"type\":"
          "\"string\"}},\"required\":[\"k\"]}]}",
          "[{\"k\":\"a\",\"v\":1},{\"k\":\"b\",\"v\":\"x\"}]",
          "[{\"k\":\"a\",\"v\":\"x\"},{\"v\":1}]");
}

static void if_chooses_then_or_else(void **state) {
    holds("{\"type\":\"object\",\"if\":{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]"
          "},\"then\":{\"required\":[\"a\"]},\"else\":{\"required\":[\"b\"]}}",
          "[{\"k\":1,\"a\":1},{\"k\":2,\"b\":1},{\"b\":1}]", "[{\"k\":1,\"b\":1},{\"a\":1}]");
}

static void a_type_may_be_a_list(void **state) {
    holds("{\"type\":[\"integer\",\"null\"]}", "[1,null]", "[1.5,\"a\"]");
    refuses("{\"type\":\"text\"}", STATUS_INVALID, "#/type: must be null");
}

static void a_boolean_is_a_schema(void **state) {
    holds("true", "[1,{}]", "[]");
    refuses("false", STATUS_INVALID, "#: no value fulfils the schema");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_and_neighbours_hold_together),
        cmocka_unit_test(one_of_holds_what_one_alone_does),
        cmocka_unit_test(one_of_reports_objects_apart_by_a_constant),
        cmocka_unit_test(if_chooses_then_or_else),
        cmocka_unit_test(a_type_may_be_a_list),
        cmocka_unit_test(a_boolean_is_a_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
