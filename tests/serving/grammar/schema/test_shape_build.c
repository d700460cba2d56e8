/* SPDX-License-Identifier: Apache-2.0
 * Protects the form of shape programs: entries, bits and what keys reach.
 */
#include "schema_cases.h"

#include "base/format.h"

TEST(properties_have_bits_in_the_order_of_the_schema) {
    struct schema_case one = {.options = {.in_order = true}};
    uint32_t label;
    assert_int_equal(
        case_compile(
            &one, "{\"type\":\"object\",\"properties\":{\"z\":{},\"a\":{}},\"required\":[\"a\"]}"),
        STATUS_OK);
    const struct shape_object *object = &one.program->objects[0];
    assert_true(object->in_order);
    assert_int_equal(object->bit_count, 2);
    assert_true(automaton_accepts(object->keys, bytes_of("z"), &label));
    assert_int_equal(one.program->entries[object->entry + label - 1].bit, 0);
    assert_int_equal(one.program->words[object->required], 2);
    assert_true(automaton_accepts(object->keys, bytes_of("other"), &label));
    assert_int_equal(one.program->entries[object->entry + label - 1].bit, SHAPE_NO_BIT);
}

TEST(each_state_of_the_keys_knows_what_it_reaches) {
    struct schema_case one = {0};
    assert_int_equal(
        case_compile(&one, "{\"type\":\"object\",\"properties\":{\"ab\":{},\"ac\":{},\"b\":{}},"
                           "\"additionalProperties\":false}"),
        STATUS_OK);
    const struct shape_object *object = &one.program->objects[0];
    uint32_t start = object->keys->start;
    uint32_t a = automaton_step(object->keys, start, 'a');
    uint32_t ab = automaton_step(object->keys, a, 'b');
    assert_int_equal(one.program->words[object->reaches + start * object->word_count], 7);
    assert_int_equal(one.program->words[object->reaches + a * object->word_count], 3);
    assert_int_equal(one.program->words[object->reaches + ab * object->word_count], 1);
    assert_int_equal(one.program->words[object->reaches_open], 0);
}

TEST(what_properties_need_is_closed) {
    struct schema_case one = {0};
    assert_int_equal(
        case_compile(&one,
                     "{\"type\":\"object\",\"dependentRequired\":{\"a\":[\"b\"],\"b\":[\"c\"]}}"),
        STATUS_OK);
    const struct shape_object *object = &one.program->objects[0];
    assert_int_equal(object->dependency_count, 2);
    assert_int_equal(one.program->words[one.program->dependencies[object->dependency].needs], 7);
}

TEST(what_the_matcher_has_no_room_for_is_refused_by_its_keyword) {
    static char schema[1 << 17];
    size_t count = format_text(schema, sizeof schema, "{\"properties\":{\"a\":{}");
    for (int i = 0; i < 64 * SHAPE_WORDS_MAX; i++)
        count += format_text(schema + count, sizeof schema - count, ",\"%d\":{}", i);
    format_text(schema + count, sizeof schema - count, "}}");
    refuses(schema, STATUS_TOO_LARGE, "#/properties: has 4097 of one object");
    refuses("{\"minProperties\":70000}", STATUS_TOO_LARGE, "#/minProperties: is 70000");
}

TEST(equal_claims_share_a_shape) {
    struct schema_case one = {0};
    assert_int_equal(
        case_compile(&one,
                     "{\"$defs\":{\"s\":{\"type\":\"string\"}},\"type\":\"array\",\"prefixItems\":"
                     "[{\"$ref\":\"#/$defs/s\"}],\"items\":false}"),
        STATUS_OK);
    assert_int_equal(one.program->shape_count, 2);
}

/* It once pointed at counts in the scratch memory, which its caller had given back. */
TEST(a_program_refers_to_nothing_of_the_scratch_memory) {
    struct schema_case one = {0};
    assert_int_equal(case_compile(&one, "{\"type\":\"array\",\"uniqueItems\":true,\"items\":"
                                        "{\"type\":\"string\",\"enum\":[\"a\",\"b\",\"cc\"]}}"),
                     STATUS_OK);
    memset(one.scratch.start, 0xFF, 2 * CASE_BYTES);
    uint32_t automata = 0;
    for (uint32_t i = 0; i < one.program->alternative_count; i++) {
        const struct automaton *string = one.program->alternatives[i].string;
        if (!string) continue;
        automata++;
        assert_int_equal(string->member_counts[string->start], 3);
        assert_int_equal(string->member_counts[automaton_step(string, string->start, 'c')], 1);
    }
    assert_int_equal(automata, 1);
}
