/* SPDX-License-Identifier: Apache-2.0
 * Protects unions and differences of sets of objects.
 */
#include "base/format.h"
#include "schema_cases.h"

TEST(an_object_fulfils_both_of_two_schemas) {
    holds("{\"allOf\":[{\"required\":[\"a\"]},{\"properties\":{\"a\":{\"type\":\"integer\"}},"
          "\"maxProperties\":2}]}",
          "[{\"a\":1},{\"a\":1,\"b\":null}]", "[{},{\"a\":\"x\"},{\"a\":1,\"b\":1,\"c\":1}]");
}

TEST(an_object_that_may_not_be_lacks_a_key_or_has_another_value) {
    holds("{\"type\":\"object\",\"not\":{\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":"
          "\"integer\"},\"b\":{\"type\":\"null\"}}}}",
          "[{},{\"a\":\"x\"},{\"a\":1,\"b\":1}]", "[{\"a\":1},{\"a\":1,\"b\":null}]");
}

TEST(a_closed_object_that_may_not_be_has_another_key) {
    holds(
        "{\"type\":\"object\",\"not\":{\"properties\":{\"a\":{}},\"additionalProperties\":false}}",
        "[{\"b\":1},{\"a\":1,\"b\":1}]", "[{},{\"a\":1}]");
}

TEST(a_breach_by_any_key_is_refused) {
    refuses("{\"type\":\"object\",\"not\":{\"additionalProperties\":{\"type\":\"integer\"}}}",
            STATUS_UNSUPPORTED, "#/not: cannot hold that some property");
}

TEST(what_a_property_needs_may_be_denied) {
    holds("{\"type\":\"object\",\"not\":{\"dependentRequired\":{\"a\":[\"b\"]}}}", "[{\"a\":1}]",
          "[{},{\"b\":1},{\"a\":1,\"b\":1}]");
}

/* Kinds of objects that the matcher follows side by side. */
static uint32_t kinds_of(const char *schema) {
    struct schema_case one = {0};
    if (case_compile(&one, schema)) fail_msg("%s: %s", schema, one.error.text);
    const struct value_shape *root = &one.program->shapes[one.program->root];
    uint32_t count = 0;
    for (uint32_t i = root->first; i < root->first + root->count; i++)
        count += (one.program->alternatives[i].kinds & SHAPE_OBJECT) != 0;
    return count;
}

TEST(a_choice_that_another_holds_is_left_out) {
    static const char *const held[] = {
        "{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}},"
        "{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]}]}",
        "{\"type\":\"object\",\"anyOf\":[{\"minProperties\":2,\"maxProperties\":3},"
        "{\"maxProperties\":4}]}",
        "{\"type\":\"object\",\"required\":[\"t\"],\"oneOf\":[{\"properties\":{\"t\":{\"const\":1},"
        "\"a\":{\"type\":\"null\"}}},{\"properties\":{\"t\":{\"const\":2}}}]}",
    };
    static const uint32_t kinds[] = {1, 1, 2};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        if (kinds_of(held[i]) != kinds[i]) fail_msg("%s: %u kinds", held[i], kinds_of(held[i]));
    holds(held[0], "[{\"a\":2},{}]", "[{\"a\":\"x\"}]");
    rejects(held[1], "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1}");
    holds(held[2], "[{\"t\":1,\"a\":null},{\"t\":2,\"a\":1}]", "[{\"t\":1,\"a\":1}]");
}

TEST(a_choice_that_no_other_holds_stays) {
    static const char *const both[] = {
        "{\"type\":\"object\",\"anyOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}}},"
        "{\"properties\":{\"a\":{\"type\":\"string\"}},\"required\":[\"a\"]}]}",
        "{\"type\":\"object\",\"anyOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}",
        "{\"type\":\"object\",\"anyOf\":[{\"maxProperties\":3},{\"minProperties\":2}]}",
        "{\"type\":\"object\",\"anyOf\":[{\"dependentRequired\":{\"a\":[\"b\"]}},"
        "{\"dependentRequired\":{\"a\":[\"c\"]}}]}",
        "{\"type\":\"object\",\"anyOf\":[{\"properties\":{\"a\":{\"type\":\"array\"}}},"
        "{\"properties\":{\"b\":{\"type\":\"array\"}}}]}",
    };
    for (size_t i = 0; i < sizeof both / sizeof *both; i++)
        if (kinds_of(both[i]) != 2) fail_msg("%s: %u kinds", both[i], kinds_of(both[i]));
}

TEST(more_choices_than_there_may_be_are_held_if_others_hold_them) {
    static char schema[1 << 16];
    size_t used = format_text(schema, sizeof schema, "{\"type\":\"object\",\"anyOf\":[");
    for (int i = 0; i < 600; i++)
        used += format_text(schema + used, sizeof schema - used,
                            "{\"required\":[\"a\"],\"properties\":{\"n\":{\"const\":%d}}},", i);
    format_text(schema + used, sizeof schema - used, "{\"required\":[\"a\"]}]}");
    refuses(schema, STATUS_TOO_LARGE, "#/anyOf: leaves more than 512 kinds of objects");
    used = format_text(schema, sizeof schema,
                       "{\"type\":\"object\",\"anyOf\":[{\"required\":[\"a\"]}");
    for (int i = 0; i < 600; i++)
        used += format_text(schema + used, sizeof schema - used,
                            ",{\"required\":[\"a\"],\"properties\":{\"n\":{\"const\":%d}}}", i);
    format_text(schema + used, sizeof schema - used, "]}");
    assert_int_equal(kinds_of(schema), 1);
}
