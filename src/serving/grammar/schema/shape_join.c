/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/schema/shape_join.h"

struct joined {
    struct shape_program counts; /* of all so far: where the next one begins */
    struct value_shape *shapes;
    struct shape_alternative *alternatives;
    struct shape_array *arrays;
    struct shape_item *items;
    struct shape_object *objects;
    struct shape_entry *entries;
    struct shape_dependency *dependencies;
    uint64_t *words;
};

static void shape_join_count_in(struct shape_program *counts, const struct shape_program *program) {
    counts->shape_count += program->shape_count;
    counts->alternative_count += program->alternative_count;
    counts->array_count += program->array_count;
    counts->item_count += program->item_count;
    counts->object_count += program->object_count;
    counts->entry_count += program->entry_count;
    counts->dependency_count += program->dependency_count;
    counts->word_count += program->word_count;
}

static bool take_all(struct arena *arena, const struct shape_program *counts, struct joined *out) {
    out->shapes = arena_take(arena, (counts->shape_count + 1) * sizeof *out->shapes);
    out->alternatives =
        arena_take(arena, (counts->alternative_count + 1) * sizeof *out->alternatives);
    out->arrays = arena_take(arena, (counts->array_count + 1) * sizeof *out->arrays);
    out->items = arena_take(arena, (counts->item_count + 1) * sizeof *out->items);
    out->objects = arena_take(arena, (counts->object_count + 1) * sizeof *out->objects);
    out->entries = arena_take(arena, (counts->entry_count + 1) * sizeof *out->entries);
    out->dependencies =
        arena_take(arena, (counts->dependency_count + 1) * sizeof *out->dependencies);
    out->words = arena_take(arena, (counts->word_count + 1) * sizeof *out->words);
    return out->shapes && out->alternatives && out->arrays && out->items && out->objects &&
           out->entries && out->dependencies && out->words;
}

static uint32_t moved(uint32_t shape, uint32_t by) {
    return shape == SHAPE_NONE ? SHAPE_NONE : shape + by;
}

static struct shape_item moved_item(struct shape_item item, uint32_t by) {
    return (struct shape_item){moved(item.plain, by), moved(item.counted, by)};
}

static void put_values(struct joined *joined, const struct shape_program *program) {
    const struct shape_program *base = &joined->counts;
    for (uint32_t i = 0; i < program->shape_count; i++) {
        struct value_shape *shape = &joined->shapes[base->shape_count + i];
        *shape = program->shapes[i];
        shape->first += base->alternative_count;
    }
    for (uint32_t i = 0; i < program->alternative_count; i++) {
        struct shape_alternative *each = &joined->alternatives[base->alternative_count + i];
        *each = program->alternatives[i];
        each->array += base->array_count;
        each->object += base->object_count;
    }
    for (uint32_t i = 0; i < program->array_count; i++) {
        struct shape_array *array = &joined->arrays[base->array_count + i];
        *array = program->arrays[i];
        array->prefix += base->item_count;
        array->rest = moved_item(array->rest, base->shape_count);
    }
    for (uint32_t i = 0; i < program->item_count; i++)
        joined->items[base->item_count + i] = moved_item(program->items[i], base->shape_count);
}

static void put_objects(struct joined *joined, const struct shape_program *program) {
    const struct shape_program *base = &joined->counts;
    for (uint32_t i = 0; i < program->object_count; i++) {
        struct shape_object *object = &joined->objects[base->object_count + i];
        *object = program->objects[i];
        object->entry += base->entry_count;
        object->required += base->word_count;
        object->reaches += base->word_count;
        object->reaches_open += base->word_count;
        object->dependency += base->dependency_count;
    }
    for (uint32_t i = 0; i < program->entry_count; i++) {
        struct shape_entry *entry = &joined->entries[base->entry_count + i];
        *entry = program->entries[i];
        entry->shape = moved(entry->shape, base->shape_count);
    }
    for (uint32_t i = 0; i < program->dependency_count; i++) {
        struct shape_dependency *each = &joined->dependencies[base->dependency_count + i];
        *each = program->dependencies[i];
        each->needs += base->word_count;
    }
    if (program->word_count)
        memcpy(joined->words + base->word_count, program->words,
               program->word_count * sizeof *joined->words);
}

enum status shape_join(struct arena *arena, const struct shape_program *const *programs,
                       size_t count, uint32_t *roots_out, const struct shape_program **out) {
    struct shape_program counts = {0};
    struct joined joined = {.counts = {.root_bare = true}};
    struct shape_program *program = arena_take(arena, sizeof *program);
    for (size_t i = 0; i < count; i++)
        shape_join_count_in(&counts, programs[i]);
    if (!program || !take_all(arena, &counts, &joined)) return STATUS_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        roots_out[i] = programs[i]->root + joined.counts.shape_count;
        put_values(&joined, programs[i]);
        put_objects(&joined, programs[i]);
        shape_join_count_in(&joined.counts, programs[i]);
    }
    *program = joined.counts;
    program->shapes = joined.shapes;
    program->alternatives = joined.alternatives;
    program->arrays = joined.arrays;
    program->items = joined.items;
    program->objects = joined.objects;
    program->entries = joined.entries;
    program->dependencies = joined.dependencies;
    program->words = joined.words;
    *out = program;
    return STATUS_OK;
}
