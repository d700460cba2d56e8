/* SPDX-License-Identifier: Apache-2.0
 * Reading JSON: strict UTF-8, no duplicate keys, no trailing bytes, at most 2,048 levels deep, U+0000
 * allowed in strings and not in keys. A number may have any size; it is written again as it was spelt. The tree lives
 * in the caller's arena and dies with it.
 */
#ifndef BASE_TREE_H
#define BASE_TREE_H

#include "base/arena.h"

struct tree; /* a value inside a tree */

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

/* STATUS_INVALID with line, column and reason; STATUS_NO_MEMORY when the arena is too small (about
 * 8 bytes per byte of text are plenty). `name` stands for the text in messages: a file, "request
 * body". */
enum status tree_parse(struct arena *arena, struct bytes text, const char *name,
                       const struct tree **root_out, struct error *error);

/* tree_parse for objects in which a key may repeat. All members are walked and written; tree_member
 * finds the last, like Python's json and JavaScript. */
enum status tree_parse_repeated(struct arena *arena, struct bytes text, const char *name,
                                const struct tree **root_out, struct error *error);

enum tree_kind tree_kind(const struct tree *value);
const char *tree_kind_name(enum tree_kind kind); /* "an object", "a string", … for messages */
/* The same of a value; a number that is beyond says so. */
const char *tree_name(const struct tree *value);
/* A number as it is spelt, at most 40 characters of it; the name of its kind of anything else. */
#define TREE_BRIEF_BYTES 48
const char *tree_brief(const struct tree *value, char out[TREE_BRIEF_BYTES]);

/* Value of a key; NULL if `object` is NULL, no object, or has no such key. */
const struct tree *tree_member(const struct tree *object, const char *key);

/* Walks an object in the text's order: pass NULL first; false at the end. */
struct tree_cursor {
    const void *place;
};
bool tree_next_member(const struct tree *object, struct tree_cursor *cursor, struct bytes *key_out,
                      const struct tree **value_out);

/* Arrays; 0 and NULL for anything else. */
size_t tree_count(const struct tree *array);
const struct tree *tree_at(const struct tree *array, size_t index);

/* Each returns false, leaving *out alone, when the value is NULL or of another kind, or a number that
 * does not fit. A number is an integer or a real; an integer never comes from a real ("1.0" is a
 * real). A number is never infinite, and has at most 1,000 characters. */
bool tree_get_string(const struct tree *value, struct bytes *out);
bool tree_get_integer(const struct tree *value, int64_t *out);
bool tree_get_word(const struct tree *value, uint64_t *out); /* 64 bits, with a sign or without */
bool tree_get_number(const struct tree *value, double *out);
/* A number's text, where it is not what `out` would be written as: of all reals that were read, of
 * "-0" and of integers beyond 64 bits. */
bool tree_get_spelling(const struct tree *value, struct bytes *out);
bool tree_is_beyond(const struct tree *value); /* a number that does not fit its C type */
bool tree_get_bool(const struct tree *value, bool *out);
bool tree_is_null(const struct tree *value); /* true only for a JSON null, not for NULL */

/* ---- building ---- */

/* New values in the arena; NULL when it is full. Text that is not UTF-8, or is no number, makes none,
 * either. */
struct tree *tree_make_object(struct arena *arena);
struct tree *tree_make_array(struct arena *arena);
struct tree *tree_make_string(struct arena *arena, struct bytes text);
struct tree *tree_make_integer(struct arena *arena, int64_t value);
struct tree *tree_make_real(struct arena *arena, double value); /* finite */
const struct tree *tree_make_number(struct arena *arena,
                                    struct bytes text); /* as JSON spells one */
const struct tree *tree_make_bool(bool value);
const struct tree *tree_make_null(void);

/* Gives an object a member, or an array one more value, which is shared and not copied: one of this
 * arena, or one that lives longer. False when the arena is full, or `value` is NULL. */
bool tree_set(struct arena *arena, struct tree *object, const char *key, const struct tree *value);
bool tree_append(struct arena *arena, struct tree *array, const struct tree *value);

/* ---- as text ---- */

struct json_writer;

/* JSON without spaces, members in their order; a number that was read as it was spelt, a real that was
 * made in as few digits as mean it. */
void tree_write(struct json_writer *writer, const struct tree *value);

/* The same as a text in the arena; data is NULL when that is full. */
struct bytes tree_text(struct arena *arena, const struct tree *value);

#endif
