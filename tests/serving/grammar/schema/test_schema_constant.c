/* SPDX-License-Identifier: Apache-2.0
 * Protects enum and const: equal is what JSON calls equal, and nothing else is let through.
 */
#include "schema_cases.h"

TEST(a_constant_holds_itself_alone) {
    accepts("{\"const\":{\"a\":[1,{\"b\":null}]}}", "{\"a\":[1,{\"b\":null}]}");
    judges("{\"const\":{\"a\":[1,{\"b\":null}]}}", "{\"a\":[1.0,{\"b\":null}]}");
    holds("{\"const\":{\"a\":[1,{\"b\":null}]}}", "[]",
          "[{\"a\":[1]},{\"a\":[1,{\"b\":null}],\"c\":1},{},[]]");
}

TEST(an_enum_holds_each_of_its_values) {
    holds("{\"enum\":[\"a\",\"a\",\"b\\u0000\",2.5,true,null,[1],{}]}",
          "[\"a\",\"b\\u0000\",2.5,true,null,[1],{}]", "[\"b\",2,false,[],[1,1],{\"a\":1}]");
}

TEST(an_enum_and_a_type_hold_what_both_do) {
    holds("{\"type\":\"string\",\"enum\":[\"a\",1]}", "[\"a\"]", "[1]");
}

TEST(draft_4_knows_no_const) {
    accepts("{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"const\":1}", "2");
}
