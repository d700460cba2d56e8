/* SPDX-License-Identifier: Apache-2.0
 * Protects what a whole schema costs and says.
 */
#include "schema_cases.h"

TEST(a_schema_is_an_object_or_a_boolean) {
    refuses("[]", STATUS_INVALID, "#: a schema must be an object or a boolean, is an array");
}

TEST(annotations_and_unknown_keywords_say_nothing) {
    accepts(
        "{\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[1],\"$comment\":\"c\","
        "\"readOnly\":true,\"deprecated\":true,\"contentEncoding\":\"base64\",\"mood\":\"good\"}",
        "null");
}

TEST(hostile_schemas_cost_bounded_work) {
    static char schema[1 << 16];
    size_t used = (size_t)snprintf(schema, sizeof schema, "{\"allOf\":[");
    for (int i = 0; i < 30; i++)
        used +=
            (size_t)snprintf(schema + used, sizeof schema - used,
                             "%s{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]}]}",
                             i ? "," : "", i, i);
    snprintf(schema + used, sizeof schema - used, "]}");
    refuses(schema, STATUS_TOO_LARGE, "#/allOf: leaves more than 512 kinds of objects");
    refuses("{\"type\":\"string\",\"allOf\":[{\"pattern\":\"a.{60}$\"},{\"pattern\":\"b.{60}$\"}]}",
            STATUS_TOO_LARGE, "#");
}

TEST(a_schema_that_is_nested_too_deep_is_refused) {
    static char schema[1 << 16];
    size_t used = 0;
    for (int i = 0; i < 300; i++)
        used += (size_t)snprintf(schema + used, sizeof schema - used, "{\"not\":");
    used += (size_t)snprintf(schema + used, sizeof schema - used, "{}");
    for (int i = 0; i < 300; i++)
        used += (size_t)snprintf(schema + used, sizeof schema - used, "}");
    refuses(schema, STATUS_TOO_LARGE, "#: the schema is nested more than");
}

/* What is refused, and a keyword or a format that the message must contain. */
static const struct {
    const char *schema, *keyword;
} refused[] = {
    {"{\"type\":\"text\"}", "type"},
    {"{\"properties\":[]}", "properties"},
    {"{\"properties\":{\"a\":1}}", "properties"},
    {"{\"patternProperties\":{\"(\":{}}}", "patternProperties"},
    {"{\"patternProperties\":[]}", "patternProperties"},
    {"{\"additionalProperties\":1}", "additionalProperties"},
    {"{\"propertyNames\":1}", "propertyNames"},
    {"{\"required\":1}", "required"},
    {"{\"required\":[1]}", "required"},
    {"{\"minProperties\":-1}", "minProperties"},
    {"{\"maxProperties\":\"1\"}", "maxProperties"},
    {"{\"dependentRequired\":[]}", "dependentRequired"},
    {"{\"dependentRequired\":{\"a\":[1]}}", "dependentRequired"},
    {"{\"dependentSchemas\":[]}", "dependentSchemas"},
    {"{\"items\":1}", "items"},
    {"{\"prefixItems\":{}}", "prefixItems"},
    {"{\"contains\":1}", "contains"},
    {"{\"minItems\":0.5}", "minItems"},
    {"{\"maxItems\":-1}", "maxItems"},
    {"{\"minLength\":-1}", "minLength"},
    {"{\"maxLength\":\"1\"}", "maxLength"},
    {"{\"pattern\":1}", "pattern"},
    {"{\"pattern\":\"(\"}", "pattern"},
    {"{\"pattern\":\"(a)\\\\1\"}", "pattern"},
    {"{\"multipleOf\":0}", "multipleOf"},
    {"{\"multipleOf\":0.00000001234567}", "multipleOf"},
    {"{\"minimum\":\"1\"}", "minimum"},
    {"{\"maximum\":null}", "maximum"},
    {"{\"exclusiveMinimum\":\"1\"}", "exclusiveMinimum"},
    {"{\"exclusiveMaximum\":[]}", "exclusiveMaximum"},
    {"{\"enum\":1}", "enum"},
    {"{\"$ref\":\"#/nothing\"}", "$ref"},
    {"{\"$ref\":\"http://other/schema\"}", "$ref"},
    {"{\"$ref\":\"#\"}", "$ref"},
    {"{\"$dynamicRef\":1}", "$dynamicRef"},
    {"{\"allOf\":1}", "allOf"},
    {"{\"anyOf\":{}}", "anyOf"},
    {"{\"oneOf\":1}", "oneOf"},
    {"{\"not\":1}", "not"},
    {"{\"if\":1,\"then\":{}}", "if"},
    {"{\"if\":{},\"then\":1}", "then"},
    {"{\"if\":{\"type\":\"null\"},\"else\":1}", "else"},
    {"{\"type\":\"string\",\"format\":\"regex\"}", "regex"},
    {"{\"type\":\"string\",\"format\":\"idn-hostname\"}", "idn-hostname"},
    {"{\"type\":\"array\",\"items\":{\"type\":\"object\"},\"uniqueItems\":true}", "uniqueItems"},
    {"{\"type\":\"array\",\"not\":{\"uniqueItems\":true}}", "uniqueItems"},
    {"{\"type\":\"array\",\"not\":{\"uniqueItems\":true}}", "not"},
    {"{\"allOf\":[{\"contains\":{\"type\":\"null\"}},{\"contains\":{\"type\":\"string\"}}]}",
     "contains"},
    {"{\"type\":\"object\",\"not\":{\"additionalProperties\":{\"type\":\"integer\"}}}",
     "additionalProperties"},
    {"{\"type\":\"object\",\"not\":{\"patternProperties\":{\"^a\":{\"type\":\"integer\"}}}}",
     "patternProperties"},
    {"{\"type\":\"object\",\"not\":{\"propertyNames\":{\"pattern\":\"^a\"}}}", "propertyNames"},
    {"{\"properties\":{\"a\":{\"type\":\"object\",\"additionalProperties\":{}}},\"not\":{"
     "\"properties\":{\"a\":{\"additionalProperties\":{\"type\":\"null\"}}}}}",
     "additionalProperties"},
    {"{\"type\":\"object\",\"dependentRequired\":{\"a\":[\"b\"]},\"minProperties\":2,"
     "\"maxProperties\":3}",
     "minProperties"},
    {"{\"type\":\"string\",\"format\":\"email\",\"maxLength\":255}", "maxLength"},
};

TEST(a_refusal_names_its_keyword) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct schema_case one = {0};
        if (!case_compile(&one, refused[i].schema))
            fail_msg("%s is not refused", refused[i].schema);
        if (!strstr(one.error.text, refused[i].keyword))
            fail_msg("%s: %s", refused[i].schema, one.error.text);
    }
}
