/* SPDX-License-Identifier: Apache-2.0
 * Protects keywords of arrays and objects.
 */
#include "schema_cases.h"

TEST(items_follow_their_prefix) {
    holds("{\"prefixItems\":[{\"type\":\"integer\"}],\"items\":{\"type\":\"string\"}}",
          "[[],[1],[1,\"a\",\"b\"]]", "[[\"a\"],[1,2]]");
    rejects("{\"$schema\":\"http://json-schema.org/draft-07/"
            "schema#\",\"items\":[{}],\"additionalItems\":false}",
            "[1,2]");
}

TEST(contains_counts_within_its_bounds) {
    holds("{\"contains\":{\"const\":1},\"minContains\":2,\"maxContains\":3}", "[[1,1],[1,2,1,1]]",
          "[[1],[1,1,1,1]]");
}

TEST(unique_items_are_strings_or_numbers) {
    rejects("{\"items\":{\"type\":\"string\"},\"uniqueItems\":true}", "[\"a\",\"a\"]");
    holds("{\"items\":{\"enum\":[\"a\",\"b\"]},\"uniqueItems\":true}", "[[\"b\",\"a\"]]",
          "[[\"b\",\"a\",\"b\"]]");
    accepts("{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":1}", "[{}]");
    refuses("{\"type\":\"array\",\"uniqueItems\":true}", STATUS_UNSUPPORTED,
            "#/uniqueItems: can only be held");
}

TEST(keys_are_named_matched_or_others) {
    holds("{\"properties\":{\"a\":{\"type\":\"integer\"}},\"patternProperties\":{\"^x\":{"
          "\"type\":\"null\"}},\"additionalProperties\":{\"type\":\"boolean\"}}",
          "[{\"a\":1,\"x1\":null,\"b\":true}]", "[{\"a\":true},{\"x1\":true},{\"b\":1}]");
}

TEST(a_key_fulfils_all_that_speaks_of_it) {
    holds("{\"properties\":{\"xa\":{\"type\":\"integer\"}},\"patternProperties\":{\"^x\":{"
          "\"minimum\":3}}}",
          "[{\"xa\":3}]", "[{\"xa\":2},{\"xa\":3.5}]");
}

TEST(names_of_properties_are_bound) {
    holds("{\"propertyNames\":{\"maxLength\":2}}", "[{\"ab\":1}]", "[{\"abc\":1}]");
    accepts("{\"propertyNames\":{\"enum\":[\"a\",\"b\"]},\"minProperties\":2}",
            "{\"a\":1,\"b\":2}");
    rejects("{\"propertyNames\":{\"enum\":[\"a\",\"b\"]}}", "{\"c\":1}");
}

TEST(a_property_may_need_others_or_a_schema) {
    holds("{\"dependentRequired\":{\"a\":[\"b\"]}}", "[{\"b\":1},{\"a\":1,\"b\":1}]",
          "[{\"a\":1}]");
    rejects("{\"dependentSchemas\":{\"a\":{\"required\":[\"b\"]}}}", "{\"a\":1}");
    holds("{\"dependencies\":{\"a\":{\"required\":[\"b\"]},\"c\":[\"d\"]}}", "[{\"a\":1,\"b\":1}]",
          "[{\"c\":1},{\"a\":1}]");
}

TEST(what_nothing_has_spoken_of_is_bound) {
    holds("{\"allOf\":[{\"properties\":{\"a\":{}}}],\"unevaluatedProperties\":false}",
          "[{\"a\":1}]", "[{\"b\":1}]");
    holds("{\"anyOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}}},{\"properties\":{\"b\":{"
          "\"type\":\"integer\"}}}],\"unevaluatedProperties\":false}",
          "[{\"a\":1,\"b\":1}]", "[{\"a\":1,\"b\":\"x\"}]");
    rejects("{\"prefixItems\":[{}],\"unevaluatedItems\":false}", "[1,2]");
}

TEST(a_dependency_that_only_requires_leaves_no_choice) {
    const char *schema =
        "{\"type\":\"object\",\"dependencies\":{\"a\":{\"required\":[\"b\",\"c\"]},"
        "\"d\":{}},\"$schema\":\"http://json-schema.org/draft-07/schema#\"}";
    struct schema_case one = {0};
    if (case_compile(&one, schema)) fail_msg("%s", one.error.text);
    assert_int_equal(one.program->object_count, 2); /* the other is a value of any kind */
    holds(schema, "[{\"b\":1},{\"a\":1,\"b\":1,\"c\":1,\"d\":1}]",
          "[{\"a\":1,\"b\":1},{\"a\":1,\"d\":1}]");
}
