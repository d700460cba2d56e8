/* SPDX-License-Identifier: Apache-2.0
 * Any JSON schema: it becomes shapes of which every one that is referred to is there, or it is
 * refused in one line, for bounded work.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "serving/grammar/schema/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARENA_BYTES ((size_t)24 << 20)

static const struct schema_limits limits = {
    .states_max = 2000, .steps_max = 1000000, .shapes_max = 2000, .depth_max = 64};

static void check_shape(const struct shape_program *program, uint32_t shape) {
    check(shape == SHAPE_NONE || shape < program->shape_count);
}

static void check_object(const struct shape_program *program, const struct shape_object *object) {
    check(object->entry + object->entry_count <= program->entry_count);
    check(object->required + object->word_count <= program->word_count);
    check(object->count_min <= object->count_max);
    for (uint32_t i = 0; i < object->entry_count; i++) {
        const struct shape_entry *entry = &program->entries[object->entry + i];
        check(entry->shape < program->shape_count);
        check(entry->bit == SHAPE_NO_BIT || entry->bit < object->bit_count);
    }
    for (uint32_t i = 0; object->keys && i < object->keys->state_count; i++)
        check(object->keys->labels[i] <= object->entry_count);
}

static void check_program(const struct shape_program *program) {
    check(program->root < program->shape_count);
    for (uint32_t i = 0; i < program->shape_count; i++) {
        const struct value_shape *shape = &program->shapes[i];
        check(shape->count >= 1 && shape->first + shape->count <= program->alternative_count);
    }
    for (uint32_t i = 0; i < program->item_count; i++) {
        check_shape(program, program->items[i].plain);
        check_shape(program, program->items[i].counted);
    }
    for (uint32_t i = 0; i < program->array_count; i++) {
        check_shape(program, program->arrays[i].rest.plain);
        check(program->arrays[i].prefix + program->arrays[i].prefix_count <= program->item_count);
        check(program->arrays[i].length_min <= program->arrays[i].length_max);
    }
    for (uint32_t i = 0; i < program->object_count; i++)
        check_object(program, &program->objects[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char *memory;
    struct arena trees, scratch, kept;
    struct error error = {0};
    struct bytes ignored;
    const struct tree *schema;
    const struct shape_program *program;
    if (!memory) memory = malloc(4 * ARENA_BYTES);
    check(memory);
    arena_over(&trees, memory, ARENA_BYTES);
    arena_over(&kept, memory + ARENA_BYTES, ARENA_BYTES);
    arena_over(&scratch, memory + 2 * ARENA_BYTES, 2 * ARENA_BYTES);
    if (tree_parse(&trees, (struct bytes){(const char *)data, size}, "schema", &schema, &error))
        return 0;
    const struct schema_options options = {.in_order = size % 2 == 0,
                                           .any_spelling = size % 3 == 0};
    enum status status =
        schema_compile(&kept, &scratch, schema, &options, &limits, &program, &ignored, &error);
    if (status)
        check(error.text[0] != '\0');
    else
        check_program(program);
    return 0;
}
