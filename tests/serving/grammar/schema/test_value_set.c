/* SPDX-License-Identifier: Apache-2.0
 * Protects the algebra of sets of values: kinds that a difference leaves, numbers that are left.
 */
#include "schema_cases.h"

static void not_of_a_kind_leaves_the_others(void **state) {
    holds("{\"not\":{\"type\":[\"string\",\"null\"]}}", "[1,true,[],{}]", "[\"a\",null]");
}

static void not_of_numbers_leaves_the_other_numbers(void **state) {
    holds("{\"type\":\"number\",\"not\":{\"minimum\":5}}", "[4,-1,4.5]", "[5,6.5]");
    holds("{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}", "[1.5]", "[1,2.0]");
}

static void not_of_strings_leaves_the_other_strings(void **state) {
    holds("{\"type\":\"string\",\"not\":{\"pattern\":\"^a\"}}", "[\"b\",\"\"]", "[\"ab\"]");
}

static void a_union_joins_what_each_holds(void **state) {
    holds("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1},{\"enum\":["
          "\"abc\",null]}]}",
          "[1,\"a\",\"abc\",null]", "[1.5,\"ab\",true]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_of_a_kind_leaves_the_others),
        cmocka_unit_test(not_of_numbers_leaves_the_other_numbers),
        cmocka_unit_test(not_of_strings_leaves_the_other_strings),
        cmocka_unit_test(a_union_joins_what_each_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
