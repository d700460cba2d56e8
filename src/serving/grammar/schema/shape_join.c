/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/schema/shape_join.h"

/* Calls LIST(type, array, count) for each array of a program. */
#define SHAPE_LISTS(LIST)                                                                          \
    LIST(struct value_shape, shapes, shape_count)                                                  \
    LIST(struct shape_alternative, alternatives, alternative_count)                                \
    LIST(struct shape_array, arrays, array_count)                                                  \
    LIST(struct shape_item, items, item_count)                                                     \
    LIST(struct shape_object, objects, object_count)                                               \
    LIST(struct shape_entry, entries, entry_count)                                                 \
    LIST(struct shape_dependency, dependencies, dependency_count)                                  \
    LIST(uint64_t, words, word_count)

struct joined {
    struct shape_program counts; /* totals so far, where the next program starts */
#define LIST(type, list, count) type *list;
    SHAPE_LISTS(LIST)
#undef LIST
};

static void shape_join_count_in(struct shape_program *counts, const struct shape_program *program) {
#define LIST(type, list, count) counts->count += program->count;
    SHAPE_LISTS(LIST)
#undef LIST
}

static bool take_all(struct arena *arena, const struct shape_program *counts, struct joined *out) {
    bool all = true;
#define LIST(type, list, count)                                                                    \
    out->list = arena_take(arena, (counts->count + 1) * sizeof(type));                             \
    all &= out->list != NULL;
    SHAPE_LISTS(LIST)
#undef LIST
    return all;
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
        array->reaches += base->word_count;
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
#define LIST(type, list, count) program->list = joined.list;
    SHAPE_LISTS(LIST)
#undef LIST
    *out = program;
    return STATUS_OK;
}
