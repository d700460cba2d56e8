/* SPDX-License-Identifier: Apache-2.0
 * Protects the algebra of sets of values: kinds that a difference leaves, numbers that are left.
 */
#include "schema_cases.h"

static void not_of_a_kind_leaves_the_others(void **state) {
    accepts("{\"not\":{\"type\":[\"string\",\"null\"]}}", "1");
    accepts("{\"not\":{\"type\":[\"string\",\"null\"]}}", "true");
    accepts("{\"not\":{\"type\":[\"string\",\"null\"]}}", "[]");
    accepts("{\"not\":{\"type\":[\"string\",\"null\"]}}", "{}");
    rejects("{\"not\":{\"type\":[\"string\",\"null\"]}}", "\"a\"");
    rejects("{\"not\":{\"type\":[\"string\",\"null\"]}}", "null");
}

static void not_of_numbers_leaves_the_other_numbers(void **state) {
    accepts("{\"type\":\"number\",\"not\":{\"minimum\":5}}", "4");
    accepts("{\"type\":\"number\",\"not\":{\"minimum\":5}}", "-1");
    accepts("{\"type\":\"number\",\"not\":{\"minimum\":5}}", "4.5");
    rejects("{\"type\":\"number\",\"not\":{\"minimum\":5}}", "5");
    rejects("{\"type\":\"number\",\"not\":{\"minimum\":5}}", "6.5");
    rejects("{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}", "1");
    rejects("{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}", "2.0");
    accepts("{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}", "1.5");
}

static void not_of_strings_leaves_the_other_strings(void **state) {
    accepts("{\"type\":\"string\",\"not\":{\"pattern\":\"^a\"}}", "\"b\"");
    accepts("{\"type\":\"string\",\"not\":{\"pattern\":\"^a\"}}", "\"\"");
    rejects("{\"type\":\"string\",\"not\":{\"pattern\":\"^a\"}}", "\"ab\"");
}

static void a_union_joins_what_each_holds(void **state) {
    accepts("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1},{\"enum\":["
            "\"abc\",null]}]}",
            "1");
    accepts("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1},{\"enum\":["
            "\"abc\",null]}]}",
            "\"a\"");
    accepts("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1},{\"enum\":["
            "\"abc\",null]}]}",
            "\"abc\"");
    accepts("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1},{\"enum\":["
            "\"abc\",null]}]}",
            "null");
    rejects("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1},{\"enum\":["
            "\"abc\",null]}]}",
            "1.5");
    rejects("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1},{\"enum\":["
            "\"abc\",null]}]}",
            "\"ab\"");
    rejects("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1},{\"enum\":["
            "\"abc\",null]}]}",
            "true");
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
