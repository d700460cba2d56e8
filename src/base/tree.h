/* SPDX-License-Identifier: Apache-2.0
 * A JSON parser and tree. It accepts only valid UTF-8, no duplicate keys, no trailing bytes, and at
 * most 2,048 levels. U+0000 is allowed in strings but not in keys. A number may have any size and
 * is written as it was spelled. The tree is in the caller's arena and is freed with it.
 */
#pragma once

#include "base/arena.h"

struct tree; /* a value in a tree */

enum tree_kind {
    TREE_OBJECT,
    TREE_ARRAY,
    TREE_STRING,
    TREE_INTEGER,
    TREE_REAL,
    TREE_TRUE,
    TREE_FALSE,
    TREE_NULL
};

/* Returns STATUS_INVALID with line, column and reason, or STATUS_NO_MEMORY if the arena is too
 * small (8 bytes per byte of text are ample). Messages use `name` for the text: a file, "request
 * body". */
enum status tree_parse(struct arena *arena, struct bytes text, const char *name,
                       const struct tree **root_out, struct error *error);

/* tree_parse for objects with repeated keys. Iteration and output include all members; tree_member
 * returns the last, as Python's json and JavaScript do. */
enum status tree_parse_repeated(struct arena *arena, struct bytes text, const char *name,
                                const struct tree **root_out, struct error *error);

enum tree_kind tree_kind(const struct tree *value);
const char *tree_kind_name(enum tree_kind kind); /* "an object", "a string", …, for messages */
/* The name of a value's kind. For a number out of range, the name mentions that. */
const char *tree_name(const struct tree *value);
/* A number as it is spelled, up to 40 characters; for other values, the name of the kind. */
#define TREE_BRIEF_BYTES 48
const char *tree_brief(const struct tree *value, char out[TREE_BRIEF_BYTES]);

/* The value of a key. Returns NULL if `object` is NULL, not an object, or has no such key. */
const struct tree *tree_member(const struct tree *object, const char *key);

/* Iterates over an object in the order of the text. Start with a zeroed cursor; false at the
 * end. */
struct tree_cursor {
    const void *place;
};
bool tree_next_member(const struct tree *object, struct tree_cursor *cursor, struct bytes *key_out,
                      const struct tree **value_out);

/* Access to arrays. For other values tree_count returns 0 and tree_at NULL. */
size_t tree_count(const struct tree *array);
const struct tree *tree_at(const struct tree *array, size_t index);

/* Each returns false and leaves *out unchanged if the value is NULL, has another kind, or is a
 * number that does not fit. A number is an integer or a real. A real is never converted to an
 * integer ("1.0" is a real). A number is finite and has at most 1,000 characters. */
bool tree_get_string(const struct tree *value, struct bytes *out);
bool tree_get_integer(const struct tree *value, int64_t *out);
bool tree_get_word(const struct tree *value, uint64_t *out); /* 64 bits, signed or unsigned */
bool tree_get_number(const struct tree *value, double *out);
/* The text of a number if printing its value would give another text: all parsed reals, "-0", and
 * integers beyond 64 bits. */
bool tree_get_spelling(const struct tree *value, struct bytes *out);
bool tree_is_beyond(const struct tree *value); /* true for a number that does not fit its C type */
bool tree_get_bool(const struct tree *value, bool *out);
bool tree_is_null(const struct tree *value); /* true only for a JSON null, not for NULL */

/* ---- building ---- */

/* Allocate new values in the arena. They return NULL if it is full, or if a text is not valid UTF-8
 * or not a number. */
struct tree *tree_make_object(struct arena *arena);
struct tree *tree_make_array(struct arena *arena);
struct tree *tree_make_string(struct arena *arena, struct bytes text);
struct tree *tree_make_integer(struct arena *arena, int64_t value);
struct tree *tree_make_real(struct arena *arena, double value); /* finite */
const struct tree *tree_make_number(struct arena *arena,
                                    struct bytes text); /* `text` is a JSON number */
const struct tree *tree_make_bool(bool value);
const struct tree *tree_make_null(void);

/* Adds a member to an object, or a value to an array. The value is shared, not copied: it must
 * be in this arena or in one that lives longer. Returns false if the arena is full or `value` is
 * NULL. */
bool tree_set(struct arena *arena, struct tree *object, const char *key, const struct tree *value);
bool tree_append(struct arena *arena, struct tree *array, const struct tree *value);

/* ---- as text ---- */

struct json_writer;

/* Writes compact JSON with members in their order. A parsed number is written as it was spelled, a
 * created real with the fewest digits that restore it. */
void tree_write(struct json_writer *writer, const struct tree *value);

/* tree_write into the arena; `data` is NULL if the arena is full. */
struct bytes tree_text(struct arena *arena, const struct tree *value);
