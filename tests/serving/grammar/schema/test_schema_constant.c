/* SPDX-License-Identifier: Apache-2.0
 * Protects enum and const: equal is what JSON calls equal, and nothing else is let through.
 */
#include "schema_cases.h"

static void a_constant_holds_itself_alone(void **state) {
    accepts("{\"const\":{\"a\":[1,{\"b\":null}]}}", "{\"a\":[1,{\"b\":null}]}");
    judges("{\"const\":{\"a\":[1,{\"b\":null}]}}", "{\"a\":[1.0,{\"b\":null}]}");
    holds("{\"const\":{\"a\":[1,{\"b\":null}]}}", "[]",
          "[{\"a\":[1]},{\"a\":[1,{\"b\":null}],\"c\":1},{},[]]");
}

static void an_enum_holds_each_of_its_values(void **state) {
    holds("{\"enum\":[\"a\",\"a\",\"b\\u0000\",2.5,true,null,[1],{}]}",
          "[\"a\",\"b\\u0000\",2.5,true,null,[1],{}]", "[\"b\",2,false,[],[1,1],{\"a\":1}]");
}

static void an_enum_and_a_type_hold_what_both_do(void **state) {
    holds("{\"type\":\"string\",\"enum\":[\"a\",1]}", "[\"a\"]", "[1]");
}

static void draft_4_knows_no_const(void **state) {
    accepts("{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"const\":1}", "2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_constant_holds_itself_alone),
        cmocka_unit_test(an_enum_holds_each_of_its_values),
        cmocka_unit_test(an_enum_and_a_type_hold_what_both_do),
        cmocka_unit_test(draft_4_knows_no_const),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
