/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/matcher/grammar.h"

static uint32_t leaf_of(struct grammar *grammar, struct text_leaf *leaves, struct text_leaf leaf) {
    for (uint32_t i = 0; i < grammar->leaf_count; i++)
        if (leaves[i].automaton == leaf.automaton && leaves[i].length_min == leaf.length_min &&
            leaves[i].length_max == leaf.length_max)
            return i;
    leaves[grammar->leaf_count] = leaf;
    return grammar->leaf_count++;
}

enum status grammar_read(struct arena *arena, const struct shape_program *program,
                         struct grammar *out) {
    size_t leaves_max =
        (size_t)2 * program->alternative_count + program->object_count + program->array_count + 1;
    struct text_leaf *leaves = arena_take(arena, leaves_max * sizeof *leaves);
    uint32_t *numbers = arena_take_zeroed(arena, (program->alternative_count + 1) * 4);
    uint32_t *strings = arena_take_zeroed(arena, (program->alternative_count + 1) * 4);
    uint32_t *keys = arena_take_zeroed(arena, (program->object_count + 1) * 4);
    uint32_t *listed = arena_take_zeroed(arena, (program->array_count + 1) * 4);
    *out = (struct grammar){.program = program, .leaves = leaves};
    if (!leaves || !numbers || !strings || !keys || !listed) return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < program->alternative_count; i++) {
        const struct shape_alternative *each = &program->alternatives[i];
        if (each->kinds & SHAPE_NUMBER)
            numbers[i] = leaf_of(out, leaves, (struct text_leaf){each->number, 0, 0});
        if (!(each->kinds & SHAPE_STRING)) continue;
        struct text_leaf leaf = {each->string, 0, 0};
        if (!each->string) leaf = (struct text_leaf){NULL, each->length_min, each->length_max};
        strings[i] = leaf_of(out, leaves, leaf);
    }
    for (uint32_t i = 0; i < program->object_count; i++)
        if (program->objects[i].keys)
            keys[i] = leaf_of(out, leaves, (struct text_leaf){program->objects[i].keys, 0, 0});
    for (uint32_t i = 0; i < program->array_count; i++)
        if (program->arrays[i].listed)
            listed[i] = leaf_of(out, leaves, (struct text_leaf){program->arrays[i].listed, 0, 0});
    out->number_leaf = numbers;
    out->string_leaf = strings;
    out->key_leaf = keys;
    out->listed_leaf = listed;
    return STATUS_OK;
}
