/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/matcher/grammar.h"

#include "base/check.h"

static uint32_t leaf_of(struct grammar *grammar, struct text_leaf *leaves, struct text_leaf leaf) {
    for (uint32_t i = 0; i < grammar->leaf_count; i++)
        if (leaves[i].automaton == leaf.automaton && leaves[i].length_min == leaf.length_min &&
            leaves[i].length_max == leaf.length_max)
            return i;
    leaves[grammar->leaf_count] = leaf;
    return grammar->leaf_count++;
}

/* ---- arrays of listed texts ---- */

/* Which labels each state leads to; a state's set holds those of its followers. */
static void find_reached(const struct automaton *automaton, uint64_t *reaches, uint32_t words) {
    for (uint32_t s = 1; s < automaton->state_count; s++) {
        uint32_t label = automaton->labels[s];
        if (label) reaches[(size_t)s * words + (label - 1) / 64] |= UINT64_C(1) << (label - 1) % 64;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t s = automaton->state_count; s-- > 1;) {
            uint64_t *set = reaches + (size_t)s * words;
            for (uint32_t c = 0; c < automaton->class_count; c++) {
                uint32_t next = automaton->next[(size_t)s * automaton->class_count + c];
                for (uint32_t w = 0; next && w < words; w++) {
                    uint64_t new = reaches[(size_t)next * words + w] & ~set[w];
                    set[w] |= new;
                    changed |= new != 0;
                }
            }
        }
    }
}

static enum status grammar_read_listed(struct arena *arena, const struct shape_array *array,
                                       const uint64_t **reaches_out, uint32_t *words_out) {
    uint32_t label_max = 0;
    for (uint32_t s = 1; s < array->listed->state_count; s++)
        if (array->listed->labels[s] > label_max) label_max = array->listed->labels[s];
    uint32_t words = (uint32_t)divide_up(label_max, 64);
    uint64_t *reaches =
        arena_take_zeroed(arena, (size_t)array->listed->state_count * words * 8 + 8);
    if (!reaches) return STATUS_NO_MEMORY;
    find_reached(array->listed, reaches, words);
    *reaches_out = reaches;
    *words_out = words;
    return STATUS_OK;
}

static enum status grammar_read_arrays(struct arena *arena, struct grammar *grammar,
                                       struct text_leaf *leaves) {
    const struct shape_program *program = grammar->program;
    uint32_t count = program->array_count;
    uint32_t *leaf = arena_take_zeroed(arena, (count + 1) * sizeof *leaf);
    uint32_t *words = arena_take_zeroed(arena, (count + 1) * sizeof *words);
    const uint64_t **reaches = arena_take_zeroed(arena, (count + 1) * sizeof *reaches);
    if (!leaf || !words || !reaches) return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const struct shape_array *array = &program->arrays[i];
        if (array->unique != SHAPE_UNIQUE_LISTED) continue;
        enum status status = grammar_read_listed(arena, array, &reaches[i], &words[i]);
        if (status) return status;
        leaf[i] = leaf_of(grammar, leaves, (struct text_leaf){array->listed, 0, 0});
    }
    grammar->listed_leaf = leaf;
    grammar->listed_words = words;
    grammar->listed_reaches = reaches;
    return STATUS_OK;
}

enum status grammar_read(struct arena *arena, const struct shape_program *program,
                         struct grammar *out) {
    size_t leaves_max =
        (size_t)2 * program->alternative_count + program->object_count + program->array_count + 1;
    struct text_leaf *leaves = arena_take(arena, leaves_max * sizeof *leaves);
    uint32_t *numbers = arena_take_zeroed(arena, (program->alternative_count + 1) * 4);
    uint32_t *strings = arena_take_zeroed(arena, (program->alternative_count + 1) * 4);
    uint32_t *keys = arena_take_zeroed(arena, (program->object_count + 1) * 4);
    *out = (struct grammar){.program = program, .leaves = leaves};
    if (!leaves || !numbers || !strings || !keys) return STATUS_NO_MEMORY;
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
    out->number_leaf = numbers;
    out->string_leaf = strings;
    out->key_leaf = keys;
    return grammar_read_arrays(arena, out, leaves);
}
