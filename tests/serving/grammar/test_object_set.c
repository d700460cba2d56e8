/* SPDX-License-Identifier: Apache-2.0
 * Protects unions and differences of sets of objects.
 */
#include "schema_cases.h"

static void an_object_fulfils_both_of_two_schemas(void **state) {
    accepts("{\"allOf\":[{\"required\":[\"a\"]},{\"properties\":{\"a\":{\"type\":\"integer\"}},"
            "\"maxProperties\":2}]}",
            "{\"a\":1}");
    accepts("{\"allOf\":[{\"required\":[\"a\"]},{\"properties\":{\"a\":{\"type\":\"integer\"}},"
            "\"maxProperties\":2}]}",
            "{\"a\":1,\"b\":null}");
    rejects("{\"allOf\":[{\"required\":[\"a\"]},{\"properties\":{\"a\":{\"type\":\"integer\"}},"
            "\"maxProperties\":2}]}",
            "{}");
    rejects("{\"allOf\":[{\"required\":[\"a\"]},{\"properties\":{\"a\":{\"type\":\"integer\"}},"
            "\"maxProperties\":2}]}",
            "{\"a\":\"x\"}");
    rejects("{\"allOf\":[{\"required\":[\"a\"]},{\"properties\":{\"a\":{\"type\":\"integer\"}},"
            "\"maxProperties\":2}]}",
            "{\"a\":1,\"b\":1,\"c\":1}");
}

static void an_object_that_may_not_be_lacks_a_key_or_has_another_value(void **state) {
    accepts("{\"type\":\"object\",\"not\":{\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":"
            "\"integer\"},\"b\":{\"type\":\"null\"}}}}",
            "{}");
    accepts("{\"type\":\"object\",\"not\":{\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":"
            "\"integer\"},\"b\":{\"type\":\"null\"}}}}",
            "{\"a\":\"x\"}");
    accepts("{\"type\":\"object\",\"not\":{\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":"
            "\"integer\"},\"b\":{\"type\":\"null\"}}}}",
            "{\"a\":1,\"b\":1}");
    rejects("{\"type\":\"object\",\"not\":{\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":"
            "\"integer\"},\"b\":{\"type\":\"null\"}}}}",
            "{\"a\":1}");
    rejects("{\"type\":\"object\",\"not\":{\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":"
            "\"integer\"},\"b\":{\"type\":\"null\"}}}}",
            "{\"a\":1,\"b\":null}");
}

static void a_closed_object_that_may_not_be_has_another_key(void **state) {
    accepts(
        "{\"type\":\"object\",\"not\":{\"properties\":{\"a\":{}},\"additionalProperties\":false}}",
        "{\"b\":1}");
    accepts(
        "{\"type\":\"object\",\"not\":{\"properties\":{\"a\":{}},\"additionalProperties\":false}}",
        "{\"a\":1,\"b\":1}");
    rejects(
        "{\"type\":\"object\",\"not\":{\"properties\":{\"a\":{}},\"additionalProperties\":false}}",
        "{}");
    rejects(
        "{\"type\":\"object\",\"not\":{\"properties\":{\"a\":{}},\"additionalProperties\":false}}",
        "{\"a\":1}");
}

static void a_breach_by_any_key_is_refused(void **state) {
    refuses("{\"type\":\"object\",\"not\":{\"additionalProperties\":{\"type\":\"integer\"}}}",
            STATUS_UNSUPPORTED, "#/not: cannot hold that some property");
}

static void what_a_property_needs_may_be_denied(void **state) {
    accepts("{\"type\":\"object\",\"not\":{\"dependentRequired\":{\"a\":[\"b\"]}}}", "{\"a\":1}");
    rejects("{\"type\":\"object\",\"not\":{\"dependentRequired\":{\"a\":[\"b\"]}}}", "{}");
    rejects("{\"type\":\"object\",\"not\":{\"dependentRequired\":{\"a\":[\"b\"]}}}", "{\"b\":1}");
    rejects("{\"type\":\"object\",\"not\":{\"dependentRequired\":{\"a\":[\"b\"]}}}",
            "{\"a\":1,\"b\":1}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_fulfils_both_of_two_schemas),
        cmocka_unit_test(an_object_that_may_not_be_lacks_a_key_or_has_another_value),
        cmocka_unit_test(a_closed_object_that_may_not_be_has_another_key),
        cmocka_unit_test(a_breach_by_any_key_is_refused),
        cmocka_unit_test(what_a_property_needs_may_be_denied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
