/* SPDX-License-Identifier: Apache-2.0
 * Protects that nothing is let through that cannot be finished.
 */
#include "schema_cases.h"

TEST(what_never_ends_is_cut_off) {
    refuses("{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
            STATUS_INVALID, "#: no value fulfils the schema");
    holds("{\"properties\":{\"a\":{\"type\":\"object\",\"properties\":{\"b\":{\"$ref\":\"#/"
          "properties/a\"}},\"required\":[\"b\"]}}}",
          "[{\"c\":1}]", "[{\"a\":{}}]");
}

TEST(counts_that_cannot_be_met_leave_nothing) {
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

TEST(what_needs_the_impossible_is_impossible) {
    rejects("{\"properties\":{\"b\":false},\"dependentRequired\":{\"a\":[\"b\"]}}", "{\"a\":1}");
    refuses("{\"type\":\"object\",\"properties\":{\"b\":false},\"dependentRequired\":{\"a\":[\"b\"]"
            "},\"required\":[\"a\"]}",
            STATUS_INVALID, "#: no value");
}

TEST(few_other_keys_become_names) {
    struct schema_case one = {0};
    assert_int_equal(case_compile(&one,
                                  "{\"type\":\"object\",\"patternProperties\":{\"^(x|y)$\":{}},"
                                  "\"additionalProperties\":false,\"minProperties\":2}"),
                     STATUS_OK);
    assert_int_equal(one.program->objects[0].bit_count, 2);
}

TEST(what_could_run_out_of_places_is_refused) {
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
