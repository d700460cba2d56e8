/* SPDX-License-Identifier: Apache-2.0
 * Protects references within a document.
 */
#include "schema_cases.h"

static void pointers_are_decoded(void **state) {
    holds("{\"$defs\":{\"a~b/c%d\":{\"type\":\"integer\"}},\"items\":{\"$ref\":\"#/$defs/"
          "a~0b~1c%25d\"}}",
          "[[1]]", "[[\"x\"]]");
}

static void a_recursion_through_values_is_held(void **state) {
    holds("{\"properties\":{\"next\":{\"$ref\":\"#\"}},\"additionalProperties\":false}",
          "[{\"next\":{\"next\":{}}}]", "[{\"next\":{\"last\":{}}}]");
}

static void identifiers_and_anchors_are_found(void **state) {
    accepts("{\"$id\":\"http://a.example/b/"
            "c.json\",\"$defs\":{\"x\":{\"$id\":\"d.json\",\"$defs\":{\"y\":{\"$anchor\":\"y\","
            "\"type\":\"integer\"}}}},\"$ref\":\"d.json#y\"}",
            "1");
    rejects("{\"$id\":\"http://a.example/b/"
            "c.json\",\"$defs\":{\"x\":{\"$id\":\"d.json\",\"$defs\":{\"y\":{\"$anchor\":\"y\","
            "\"type\":\"integer\"}}}},\"$ref\":\"http://a.example/b/d.json#y\"}",
            "\"x\"");
    rejects("{\"$id\":\"http://a.example/b/c.json\",\"$defs\":{\"x\":{\"$id\":\"../"
            "d.json\",\"type\":\"integer\"}},\"$ref\":\"/d.json\"}",
            "\"x\"");
}

static void what_leads_out_or_to_nothing_is_named(void **state) {
    refuses("{\"$ref\":\"http://b.example/s.json\"}", STATUS_UNSUPPORTED,
            "#/$ref: leads out of the schema to \"http://b.example/s.json\"");
    refuses("{\"items\":{\"$ref\":\"#/$defs/a\"}}", STATUS_INVALID,
            "#/items/$ref: \"#/$defs/a\" leads to nothing");
}

static void a_reference_to_itself_is_named(void **state) {
    refuses("{\"$ref\":\"#\"}", STATUS_INVALID, "#");
    refuses("{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", STATUS_INVALID, "#");
}

static void older_drafts_let_neighbours_of_a_reference_be(void **state) {
    accepts("{\"$schema\":\"http://json-schema.org/draft-07/"
            "schema#\",\"definitions\":{\"a\":{}},\"$ref\":\"#/definitions/a\",\"type\":\"null\"}",
            "1");
    rejects("{\"definitions\":{\"a\":{}},\"$ref\":\"#/definitions/a\",\"type\":\"null\"}", "1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointers_are_decoded),
        cmocka_unit_test(a_recursion_through_values_is_held),
        cmocka_unit_test(identifiers_and_anchors_are_found),
        cmocka_unit_test(what_leads_out_or_to_nothing_is_named),
        cmocka_unit_test(a_reference_to_itself_is_named),
        cmocka_unit_test(older_drafts_let_neighbours_of_a_reference_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
