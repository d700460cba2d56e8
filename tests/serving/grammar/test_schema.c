/* SPDX-License-Identifier: Apache-2.0
 * Protects what a whole schema costs and says.
 */
#include "schema_cases.h"

#include <stdio.h>

static void a_schema_is_an_object_or_a_boolean(void **state) {
    refuses("[]", STATUS_INVALID, "#: a schema must be an object or a boolean, is an array");
}

static void annotations_and_unknown_keywords_say_nothing(void **state) {
    accepts(
        "{\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[1],\"$comment\":\"c\","
        "\"readOnly\":true,\"deprecated\":true,\"contentEncoding\":\"base64\",\"mood\":\"good\"}",
        "null");
}

static void hostile_schemas_cost_bounded_work(void **state) {
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

static void a_schema_that_is_nested_too_deep_is_refused(void **state) {
    static char schema[1 << 16];
    size_t used = 0;
    for (int i = 0; i < 300; i++)
        used += (size_t)snprintf(schema + used, sizeof schema - used, "{\"not\":");
    used += (size_t)snprintf(schema + used, sizeof schema - used, "{}");
    for (int i = 0; i < 300; i++)
        used += (size_t)snprintf(schema + used, sizeof schema - used, "}");
    refuses(schema, STATUS_TOO_LARGE, "#: the schema is nested more than");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_schema_is_an_object_or_a_boolean),
        cmocka_unit_test(annotations_and_unknown_keywords_say_nothing),
        cmocka_unit_test(hostile_schemas_cost_bounded_work),
        cmocka_unit_test(a_schema_that_is_nested_too_deep_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
