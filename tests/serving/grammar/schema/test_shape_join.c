/* SPDX-License-Identifier: Apache-2.0
 * Programs that are joined hold what each of them held alone.
 */
#include "schema_cases.h"

#include "base/check.h"
#include "serving/grammar/schema/shape_join.h"

TEST(joined_programs_hold_the_same_values) {
    static const char *const schemas[] = {
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
        "\"array\",\"prefixItems\":[{\"const\":1}],\"items\":{\"type\":\"null\"}}},\"required\":["
        "\"a\"],\"dependentRequired\":{\"b\":[\"c\"]},\"additionalProperties\":true}",
        "{\"type\":[\"array\",\"string\"],\"items\":{\"enum\":[\"x\",\"y\"]},\"minItems\":1,"
        "\"contains\":{\"const\":\"y\"},\"maxLength\":2}",
        "{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"n\":{"
        "\"$ref\":\"#/$defs/n\"}},\"additionalProperties\":false}}}"};
    static const char *const values[] = {"{\"a\":1}",
                                         "{\"a\":1,\"b\":[1,null]}",
                                         "{\"a\":1,\"b\":[1,null],\"c\":0}",
                                         "{\"b\":[],\"c\":1}",
                                         "[\"x\",\"y\"]",
                                         "[\"x\"]",
                                         "\"ab\"",
                                         "\"abc\"",
                                         "{\"n\":{\"n\":{}}}",
                                         "{\"n\":{\"m\":{}}}",
                                         "{}"};
    static char memory[2][CASE_BYTES / 8];
    struct schema_case one = {0};
    struct arena kept, arena;
    struct schema_options options = {false};
    struct error error;
    const struct shape_program *programs[ARRAY_COUNT(schemas)], *joined;
    uint32_t roots[ARRAY_COUNT(schemas)];
    case_arenas(&one);
    arena_over(&kept, memory[0], sizeof memory[0]);
    arena_over(&arena, memory[1], sizeof memory[1]);
    for (size_t i = 0; i < ARRAY_COUNT(schemas); i++)
        assert_false(schema_compile(&kept, &one.scratch, case_tree(&one, schemas[i]), &options,
                                    &schema_limits_usual, &programs[i], NULL, &error));
    assert_false(shape_join(&arena, programs, ARRAY_COUNT(schemas), roots, &joined));
    for (size_t i = 0; i < ARRAY_COUNT(schemas); i++)
        for (size_t v = 0; v < ARRAY_COUNT(values); v++) {
            const struct tree *value = case_tree(&one, values[v]);
            struct shape_program part = *joined;
            part.root = roots[i];
            if (shape_check(&part, value) != shape_check(programs[i], value))
                fail_msg("%s and %s", schemas[i], values[v]);
        }
}

TEST(nothing_can_be_joined) {
    static char memory[4096];
    struct arena arena;
    const struct shape_program *joined;
    arena_over(&arena, memory, sizeof memory);
    assert_false(shape_join(&arena, NULL, 0, NULL, &joined));
    assert_int_equal(joined->shape_count, 0);
}
