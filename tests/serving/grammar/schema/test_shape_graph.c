/* SPDX-License-Identifier: Apache-2.0
 * Protects that nothing is let through that cannot be finished.
 */
#include "schema_cases.h"

static void what_never_ends_is_cut_off(void **state) {
    refuses("{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
            STATUS_INVALID, "#: no value fulfils the schema");
    holds("{\"properties\":{\"a\":{\"type\":\"object\",\"properties\":{\"b\":{\"$ref\":\"#/"
          "properties/a\"}},\"required\":[\"b\"]}}}",
          "[{\"c\":1}]", "[{\"a\":{}}]");
}

static void counts_that_cannot_be_met_leave_nothing(void **state) {
    refuses("{\"type\":\"object\",\"properties\":{\"a\":{}},\"additionalProperties\":false,"
            "\"minProperties\":2}",
            STATUS_INVALID, "#: no value");
    refuses("{\"type\":\"object\",\"required\":[\"a\",\"b\"],\"maxProperties\":1}", STATUS_INVALID,
            "#: no value");
    refuses("{\"type\":\"array\",\"prefixItems\":[false],\"minItems\":1}", STATUS_INVALID,
            "#: no value");
    refuses("{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\"]},\"uniqueItems\":true,"
            "\"minItems\":3}",
            STATUS_INVALID, "#: no value");
}

static void what_needs_the_impossible_is_impossible(void **state) {
    rejects("{\"properties\":{\"b\":false},\"dependentRequired\":{\"a\":[\"b\"]}}", "{\"a\":1}");
    refuses("{\"type\":\"object\",\"properties\":{\"b\":false},\"dependentRequired\":{\"a\":[\"b\"]"
            "},\"required\":[\"a\"]}",
            STATUS_INVALID, "#: no value");
}

static void few_other_keys_become_names(void **state) {
    struct schema_case one = {0};
    assert_int_equal(case_compile(&one,
                                  "{\"type\":\"object\",\"patternProperties\":{\"^(x|y)$\":{}},"
                                  "\"additionalProperties\":false,\"minProperties\":2}"),
                     STATUS_OK);
    assert_int_equal(one.program->objects[0].bit_count, 2);
}

static void what_could_run_out_of_places_is_refused(void **state) {
    refuses(
        "{\"type\":\"object\",\"patternProperties\":{\"^(a|b.*)$\":{}},\"additionalProperties\":"
        "false,\"minProperties\":2,\"maxProperties\":3}",
        STATUS_UNSUPPORTED, "#/minProperties: cannot be held together with maxProperties");
    refuses("{\"type\":\"object\",\"dependentRequired\":{\"a\":[\"b\"],\"b\":[\"a\"]},"
            "\"minProperties\":2,\"maxProperties\":3}",
            STATUS_UNSUPPORTED,
            "#/minProperties: cannot be held together with properties that need");
    accepts("{\"type\":\"object\",\"patternProperties\":{\"^b.*$\":{}},\"additionalProperties\":"
            "false,\"minProperties\":2,\"maxProperties\":3}",
            "{\"b\":1,\"bb\":2}");
    accepts("{\"type\":\"object\",\"dependentRequired\":{\"a\":[\"b\"]},\"minProperties\":2}",
            "{\"x\":1,\"y\":2}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_never_ends_is_cut_off),
        cmocka_unit_test(counts_that_cannot_be_met_leave_nothing),
        cmocka_unit_test(what_needs_the_impossible_is_impossible),
        cmocka_unit_test(few_other_keys_become_names),
        cmocka_unit_test(what_could_run_out_of_places_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
