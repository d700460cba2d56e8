/* SPDX-License-Identifier: Apache-2.0
 * jansson allocates through a hook; while a text is parsed, the hook hands out the caller's arena.
 * Nothing is ever freed one by one: reference counts are never touched, the arena is dropped whole.
 *
 * When the arena is full, the hook jumps out of jansson instead of returning NULL: jansson 2.14
 * does not survive that everywhere (its lexer ignores that a text buffer could not grow, then reads
 * and writes past its end). There is nothing to unwind: all that jansson holds lies in the arena.
 */
#include "base/tree.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/json_writer.h"
#include "base/real.h"

static _Thread_local struct arena *parse_arena;
static _Thread_local jmp_buf out_of_memory;

static void *take(size_t bytes) {
    if (!parse_arena) return malloc(bytes);
    void *memory = arena_take(parse_arena, bytes);
    if (!memory) longjmp(out_of_memory, 1);
    return memory;
}

static void drop(void *memory) {
    if (!parse_arena) free(memory);
}

__attribute__((constructor)) static void install_hooks(void) {
    json_set_alloc_funcs(take, drop);
}

static const json_t *json_of(const struct tree *value) {
    return (const json_t *)value;
}

static const struct tree *tree_of(const json_t *value) {
    return (const struct tree *)value;
}

enum status tree_parse(struct arena *arena, struct bytes text, const char *name,
                       const struct tree **root_out, struct error *error) {
    json_error_t reason;
    if (text.count &&
        memchr(text.data, 0, text.count)) /* jansson passes over one behind a number */
        return error_set(error, STATUS_INVALID, "%s: not valid JSON: it has a zero byte", name);
    parse_arena = arena;
    if (setjmp(out_of_memory)) {
        parse_arena = NULL;
        return error_set(error, STATUS_NO_MEMORY,
                         "%s: not enough memory to parse %zu bytes of JSON", name, text.count);
    }
    json_t *root = json_loadb(text.data ? text.data : "", text.count,
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &reason);
    parse_arena = NULL;
    if (root) {
        *root_out = tree_of(root);
        return STATUS_OK;
    }
    return error_set(error, STATUS_INVALID, "%s: not valid JSON: line %d, column %d: %s", name,
                     reason.line, reason.column, reason.text);
}

enum tree_kind tree_kind(const struct tree *value) {
    static const enum tree_kind kinds[] = {
        [JSON_OBJECT] = TREE_OBJECT,   [JSON_ARRAY] = TREE_ARRAY, [JSON_STRING] = TREE_STRING,
        [JSON_INTEGER] = TREE_INTEGER, [JSON_REAL] = TREE_REAL,   [JSON_TRUE] = TREE_TRUE,
        [JSON_FALSE] = TREE_FALSE,     [JSON_NULL] = TREE_NULL,
    };
    return kinds[json_typeof(json_of(value))];
}

const char *tree_kind_name(enum tree_kind kind) {
    static const char *const names[] = {
        [TREE_OBJECT] = "an object",   [TREE_ARRAY] = "an array",     [TREE_STRING] = "a string",
        [TREE_INTEGER] = "an integer", [TREE_REAL] = "a real number", [TREE_TRUE] = "true",
        [TREE_FALSE] = "false",        [TREE_NULL] = "null",
    };
    return names[kind];
}

const struct tree *tree_member(const struct tree *object, const char *key) {
    return tree_of(json_object_get(json_of(object), key));
}

bool tree_next_member(const struct tree *object, struct tree_cursor *cursor, struct bytes *key_out,
                      const struct tree **value_out) {
    json_t *json = (json_t *)(uintptr_t)object;
    void *place =
        cursor->place ? json_object_iter_next(json, cursor->place) : json_object_iter(json);
    if (!place) return false;
    cursor->place = place;
    *key_out = (struct bytes){json_object_iter_key(place), json_object_iter_key_len(place)};
    *value_out = tree_of(json_object_iter_value(place));
    return true;
}

size_t tree_count(const struct tree *array) {
    return json_array_size(json_of(array));
}

const struct tree *tree_at(const struct tree *array, size_t index) {
    return tree_of(json_array_get(json_of(array), index));
}

bool tree_get_string(const struct tree *value, struct bytes *out) {
    if (!json_is_string(json_of(value))) return false;
    *out = (struct bytes){json_string_value(json_of(value)), json_string_length(json_of(value))};
    return true;
}

bool tree_get_integer(const struct tree *value, int64_t *out) {
    if (!json_is_integer(json_of(value))) return false;
    *out = json_integer_value(json_of(value));
    return true;
}

bool tree_get_number(const struct tree *value, double *out) {
    if (!json_is_number(json_of(value))) return false;
    *out = json_number_value(json_of(value));
    return true;
}

bool tree_get_bool(const struct tree *value, bool *out) {
    if (!json_is_boolean(json_of(value))) return false;
    *out = json_is_true(json_of(value));
    return true;
}

bool tree_is_null(const struct tree *value) {
    return json_is_null(json_of(value));
}

/* ---- building ---- */

/* `statement` with jansson allocating from the arena; `result` stays as it is when that is full. */
#define IN_ARENA(arena, statement)                                                                 \
    do {                                                                                           \
        parse_arena = (arena);                                                                     \
        if (!setjmp(out_of_memory)) statement;                                                     \
        parse_arena = NULL;                                                                        \
    } while (0)

struct tree *tree_make_object(struct arena *arena) {
    json_t *volatile made = NULL;
    IN_ARENA(arena, made = json_object());
    return (struct tree *)made;
}

struct tree *tree_make_array(struct arena *arena) {
    json_t *volatile made = NULL;
    IN_ARENA(arena, made = json_array());
    return (struct tree *)made;
}

struct tree *tree_make_string(struct arena *arena, struct bytes text) {
    json_t *volatile made = NULL;
    IN_ARENA(arena, made = json_stringn(text.count ? text.data : "", text.count));
    return (struct tree *)made;
}

struct tree *tree_make_integer(struct arena *arena, int64_t value) {
    json_t *volatile made = NULL;
    IN_ARENA(arena, made = json_integer(value));
    return (struct tree *)made;
}

struct tree *tree_make_real(struct arena *arena, double value) {
    json_t *volatile made = NULL;
    check(isfinite(value));
    IN_ARENA(arena, made = json_real(value));
    return (struct tree *)made;
}

struct tree *tree_make_bool(bool value) {
    return (struct tree *)json_boolean(value);
}

struct tree *tree_make_null(void) {
    return (struct tree *)json_null();
}

bool tree_set(struct arena *arena, struct tree *object, const char *key, const struct tree *value) {
    volatile bool done = false;
    if (!object || !value) return false;
    json_t *member = (json_t *)(uintptr_t)value;
    IN_ARENA(arena, done = json_object_set_new((json_t *)object, key, member) == 0);
    return done;
}

bool tree_append(struct arena *arena, struct tree *array, const struct tree *value) {
    volatile bool done = false;
    if (!array || !value) return false;
    json_t *member = (json_t *)(uintptr_t)value;
    IN_ARENA(arena, done = json_array_append_new((json_t *)array, member) == 0);
    return done;
}

/* ---- as text ---- */

static void write_object(struct json_writer *writer, const struct tree *object) {
    struct tree_cursor cursor = {0};
    struct bytes key;
    const struct tree *value;
    const char *before = "{";
    while (tree_next_member(object, &cursor, &key, &value)) {
        json_writer_text(writer, before);
        json_writer_string(writer, key);
        json_writer_text(writer, ":");
        tree_write(writer, value);
        before = ",";
    }
    json_writer_text(writer, *before == '{' ? "{}" : "}");
}

static void write_array(struct json_writer *writer, const struct tree *array) {
    json_writer_text(writer, "[");
    for (size_t i = 0; i < tree_count(array); i++) {
        if (i) json_writer_text(writer, ",");
        tree_write(writer, tree_at(array, i));
    }
    json_writer_text(writer, "]");
}

void tree_write(struct json_writer *writer, const struct tree *value) {
    char digits[REAL_TEXT_BYTES];
    struct bytes text;
    double number;
    int64_t integer;
    if (tree_kind(value) == TREE_OBJECT) {
        write_object(writer, value);
    } else if (tree_kind(value) == TREE_ARRAY) {
        write_array(writer, value);
    } else if (tree_get_string(value, &text)) {
        json_writer_string(writer, text);
    } else if (tree_get_integer(value, &integer)) {
        json_writer_integer(writer, integer);
    } else if (tree_get_number(value, &number)) {
        json_writer_bytes(writer, (struct bytes){digits, real_write(number, digits)});
    } else {
        json_writer_text(writer, tree_is_null(value) ? "null" : tree_kind_name(tree_kind(value)));
    }
}

struct bytes tree_text(struct arena *arena, const struct tree *value) {
    struct json_writer counter = {0};
    tree_write(&counter, value);
    struct json_writer writer = {.out = arena_take(arena, counter.count + 1),
                                 .room = counter.count};
    if (!writer.out) return (struct bytes){NULL, 0};
    tree_write(&writer, value);
    return (struct bytes){writer.out, writer.count};
}
