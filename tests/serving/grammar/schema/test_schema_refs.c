/* SPDX-License-Identifier: Apache-2.0
 * Protects references within a document.
 */
#include "schema_cases.h"

TEST(pointers_are_decoded) {
    holds("{\"$defs\":{\"a~b/c%d\":{\"type\":\"integer\"}},\"items\":{\"$ref\":\"#/$defs/"
          "a~0b~1c%25d\"}}",
          "[[1]]", "[[\"x\"]]");
}

TEST(a_recursion_through_values_is_held) {
    holds("{\"properties\":{\"next\":{\"$ref\":\"#\"}},\"additionalProperties\":false}",
          "[{\"next\":{\"next\":{}}}]", "[{\"next\":{\"last\":{}}}]");
}

TEST(identifiers_and_anchors_are_found) {
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

TEST(what_leads_out_or_to_nothing_is_named) {
    refuses("{\"$ref\":\"http://b.example/s.json\"}", STATUS_UNSUPPORTED,
            "#/$ref: leads out of the schema to \"http://b.example/s.json\"");
    refuses("{\"items\":{\"$ref\":\"#/$defs/a\"}}", STATUS_INVALID,
            "#/items/$ref: \"#/$defs/a\" leads to nothing");
}

TEST(a_reference_to_itself_is_named) {
    refuses("{\"$ref\":\"#\"}", STATUS_INVALID, "#");
    refuses("{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", STATUS_INVALID, "#");
}

TEST(older_drafts_let_neighbours_of_a_reference_be) {
    accepts("{\"$schema\":\"http://json-schema.org/draft-07/"
            "schema#\",\"definitions\":{\"a\":{}},\"$ref\":\"#/definitions/a\",\"type\":\"null\"}",
            "1");
    rejects("{\"definitions\":{\"a\":{}},\"$ref\":\"#/definitions/a\",\"type\":\"null\"}", "1");
}
