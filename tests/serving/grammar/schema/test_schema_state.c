/* SPDX-License-Identifier: Apache-2.0
 * Protects messages and memory: places are named, and what is missing is said.
 */
#include "schema_cases.h"

TEST(a_place_is_named_with_its_keyword) {
    refuses("{\"properties\":{\"a\":{\"items\":{\"type\":7}}}}", STATUS_INVALID,
            "#/properties/a/items/type: must be");
}

TEST(too_little_memory_is_said) {
    static char memory[1 << 16];
    struct arena trees, scratch, kept;
    struct error error;
    const struct tree *tree;
    const struct shape_program *program;
    const struct schema_options options = {0};
    arena_over(&trees, memory, sizeof memory / 2);
    arena_over(&scratch, memory + sizeof memory / 2, sizeof memory / 4);
    arena_over(&kept, memory + sizeof memory / 4 * 3, sizeof memory / 4);
    assert_int_equal(tree_parse(&trees, bytes_of("{}"), "schema", &tree, &error), STATUS_OK);
    assert_int_equal(schema_compile(&kept, &scratch, tree, &options, &schema_limits_usual, &program,
                                    NULL, &error),
                     STATUS_NO_MEMORY);
    assert_non_null(strstr(error.text, "memory"));
}
