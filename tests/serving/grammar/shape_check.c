/* SPDX-License-Identifier: Apache-2.0 */
#include "shape_check.h"

#include <stdio.h>
#include <stdlib.h>

static bool holds(const struct shape_program *program, uint32_t shape, const struct tree *value);

static bool accepts(const struct automaton *automaton, struct bytes text) {
    uint32_t label;
    return automaton_accepts(automaton, text, &label);
}

static bool holds_number(const struct automaton *automaton, const struct tree *value) {
    char memory[1024];
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    struct bytes text = tree_text(&arena, value); /* as it was spelt */
    if (!text.data) return false;
    return accepts(automaton, text);
}

static bool holds_string(const struct shape_alternative *alternative, struct bytes text) {
    if (alternative->string) return accepts(alternative->string, text);
    uint32_t length = 0;
    for (size_t i = 0; i < text.count; i++)
        length += ((unsigned char)text.data[i] & 0xC0) != 0x80;
    return length >= alternative->length_min && length <= alternative->length_max;
}

static bool holds_array(const struct shape_program *program, const struct shape_array *array,
                        const struct tree *value) {
    size_t count = tree_count(value);
    if (count < array->length_min || count > array->length_max) return false;
    uint32_t forced = 0, possible = 0;
    for (size_t i = 0; i < count; i++) {
        const struct shape_item *item =
            i < array->prefix_count ? &program->items[array->prefix + i] : &array->rest;
        const struct tree *one = tree_at(value, i);
        bool plain = item->plain != SHAPE_NONE && holds(program, item->plain, one);
        bool counted = item->counted != SHAPE_NONE && holds(program, item->counted, one);
        if (!plain && !counted) return false;
        forced += !plain;
        possible += counted;
    }
    if (possible < array->counted_min || forced > array->counted_max) return false;
    for (size_t i = 0; i < count && array->unique != SHAPE_REPEATS; i++) {
        for (size_t k = 0; k < i; k++) {
            struct bytes a, b;
            double x = 0, y = 0;
            if (tree_get_string(tree_at(value, i), &a) && tree_get_string(tree_at(value, k), &b) &&
                bytes_equal(a, b))
                return false;
            if (tree_get_number(tree_at(value, i), &x) && tree_get_number(tree_at(value, k), &y) &&
                x == y)
                return false;
        }
    }
    return true;
}

static bool has_bit(const struct shape_program *program, uint32_t first, uint32_t bit) {
    return program->words[first + bit / 64] >> bit % 64 & 1;
}

static bool obeys_needs(const struct shape_program *program, const struct shape_object *object,
                        const bool *there) {
    for (uint32_t bit = 0; bit < object->bit_count; bit++)
        if (has_bit(program, object->required, bit) && !there[bit]) return false;
    for (uint32_t i = 0; i < object->dependency_count; i++) {
        const struct shape_dependency *one = &program->dependencies[object->dependency + i];
        for (uint32_t bit = 0; bit < object->bit_count && there[one->bit]; bit++)
            if (has_bit(program, one->needs, bit) && !there[bit]) return false;
    }
    return true;
}

static bool holds_object(const struct shape_program *program, const struct shape_object *object,
                         const struct tree *value) {
    struct tree_cursor cursor = {0};
    struct bytes key;
    const struct tree *member;
    uint32_t count = 0, label;
    bool *there = calloc(object->bit_count + 1, 1), good = true;
    while (good && tree_next_member(value, &cursor, &key, &member)) {
        count++;
        good = object->keys && automaton_accepts(object->keys, key, &label);
        if (!good) break;
        const struct shape_entry *entry = &program->entries[object->entry + label - 1];
        if (entry->bit != SHAPE_NO_BIT) there[entry->bit] = true;
        good = holds(program, entry->shape, member);
    }
    good = good && count >= object->count_min && count <= object->count_max &&
           obeys_needs(program, object, there);
    free(there);
    return good;
}

static bool holds(const struct shape_program *program, uint32_t shape, const struct tree *value) {
    static const uint32_t kinds[] = {
        [TREE_OBJECT] = SHAPE_OBJECT,  [TREE_ARRAY] = SHAPE_ARRAY, [TREE_STRING] = SHAPE_STRING,
        [TREE_INTEGER] = SHAPE_NUMBER, [TREE_REAL] = SHAPE_NUMBER, [TREE_TRUE] = SHAPE_TRUE,
        [TREE_FALSE] = SHAPE_FALSE,    [TREE_NULL] = SHAPE_NULL,
    };
    uint32_t kind = kinds[tree_kind(value)];
    for (uint32_t i = 0; i < program->shapes[shape].count; i++) {
        const struct shape_alternative *one =
            &program->alternatives[program->shapes[shape].first + i];
        struct bytes text = {0};
        bool good = one->kinds & kind;
        if (good && kind == SHAPE_NUMBER) good = holds_number(one->number, value);
        if (good && kind == SHAPE_STRING)
            good = tree_get_string(value, &text) && holds_string(one, text);
        if (good && kind == SHAPE_ARRAY)
            good = holds_array(program, &program->arrays[one->array], value);
        if (good && kind == SHAPE_OBJECT)
            good = holds_object(program, &program->objects[one->object], value);
        if (good) return true;
    }
    return false;
}

bool shape_check(const struct shape_program *program, const struct tree *value) {
    return holds(program, program->root, value);
}
