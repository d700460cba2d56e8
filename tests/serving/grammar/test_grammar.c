/* SPDX-License-Identifier: Apache-2.0
 * A grammar is read before it runs: what the matcher cannot hold is refused by its keyword.
 */
#include "matcher_cases.h"

#include "serving/grammar/grammar.h"

static void what_cannot_be_held_is_refused_by_its_keyword(void **state) {
    static char memory[1 << 16];
    static const uint64_t words[128];
    struct shape_object object = {.count_min = 70000, .count_max = SHAPE_UNBOUNDED};
    struct shape_alternative alternative = {.kinds = SHAPE_OBJECT};
    struct value_shape shape = {0, 1};
    struct shape_program program = {.shapes = &shape,
                                    .alternatives = &alternative,
                                    .objects = &object,
                                    .words = words,
                                    .shape_count = 1,
                                    .alternative_count = 1,
                                    .object_count = 1};
    struct grammar grammar;
    struct error error;
    struct arena arena;
    (void)state;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(grammar_read(&arena, &program, &grammar, &error), STATUS_TOO_LARGE);
    assert_memory_equal(error.text, "minProperties: ", 15);
    object = (struct shape_object){.bit_count = 5000, .word_count = 79};
    assert_int_equal(grammar_read(&arena, &program, &grammar, &error), STATUS_TOO_LARGE);
    assert_memory_equal(error.text, "properties: ", 12);
}

static void equal_leaves_are_one(void **state) {
    struct matcher_case one;
    (void)state;
    case_open(&one, "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},\"b\":"
                    "{\"type\":[\"string\",\"null\"]}},\"additionalProperties\":false}");
    assert_int_equal(one.grammar->leaf_count, 2); /* all strings, and the keys */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_held_is_refused_by_its_keyword),
        cmocka_unit_test(equal_leaves_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
