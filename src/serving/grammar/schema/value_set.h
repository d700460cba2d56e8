/* SPDX-License-Identifier: Apache-2.0
 * The operations and, or and without on value sets (schema_state.h). A union of too many array sets
 * or object sets is refused, and so is a difference that no such union represents. The error names
 * the keyword being processed.
 */
#ifndef SERVING_GRAMMAR_SCHEMA_VALUE_SET_H
#define SERVING_GRAMMAR_SCHEMA_VALUE_SET_H

#include "serving/grammar/schema/schema_state.h"

#define VALUE_UNION_MAX 512 /* array sets or object sets of one value set */

enum status value_set_open(struct schema_state *state) MUST_USE; /* value_any and its parts */

static inline bool value_is_none(const struct value_set *set) {
    return set->bits == 0 && set->number == LANGUAGE_NONE && set->string == LANGUAGE_NONE &&
           set->arrays.count == 0 && set->objects.count == 0;
}

/* `out` may be one of the operands. */
enum status value_set_and(struct schema_state *state, const struct value_set *a,
                          const struct value_set *b, struct value_set *out) MUST_USE;
enum status value_set_or(struct schema_state *state, const struct value_set *a,
                         const struct value_set *b, struct value_set *out) MUST_USE;
enum status value_set_without(struct schema_state *state, const struct value_set *a,
                              const struct value_set *b, struct value_set *out) MUST_USE;

/* Whether a key_set includes the key of this name. */
bool object_set_keys_have_name(const struct schema_state *state, uint32_t key_set, uint32_t name);
/* The same of a key that no key_set names; `inside` has a bit for each of `languages`. */
bool object_set_keys_have_other(const struct schema_state *state, uint32_t key_set,
                                const uint32_t *languages, uint32_t language_count,
                                uint64_t inside);
/* The conjunction of an object's rules about the property of this name. */
enum status object_set_conjunction_of(struct schema_state *state, const struct object_set *object,
                                      uint32_t name, uint32_t *out) MUST_USE;

/* The union of one set alone, which is copied into the arena. */
enum status value_set_list_of(struct schema_state *state, const void *set, size_t bytes,
                              struct set_list *out) MUST_USE;

/* Leaves the ways to write numbers that an answer may have (schema_options). */
enum status value_set_spell(struct schema_state *state, struct value_set *set) MUST_USE;

/* ---- objects: object_set.c ---- */

/* *out is NULL where no object is in both. */
enum status object_set_and(struct schema_state *state, const void *a, const void *b,
                           const void **out) MUST_USE;
/* Adds a set to a union, unless it is there. STATUS_TOO_LARGE. */
enum status object_set_add(struct schema_state *state, struct set_list *all,
                           const void *object) MUST_USE;
/* Removes sets that another one contains, as far as can be determined. */
enum status object_set_thin(struct schema_state *state, struct set_list *all) MUST_USE;
/* Adds to `all` what `a` holds without `b`. STATUS_UNSUPPORTED: no union of object sets is that. */
enum status object_set_without(struct schema_state *state, const void *a, const void *b,
                               struct set_list *all) MUST_USE;

/* ---- arrays: array_set.c ---- */

/* The same of arrays. STATUS_UNSUPPORTED: both count items. */
enum status array_set_and(struct schema_state *state, const void *a, const void *b,
                          const void **out) MUST_USE;
enum status array_set_add(struct schema_state *state, struct set_list *all,
                          const void *array) MUST_USE;
enum status array_set_without(struct schema_state *state, const void *a, const void *b,
                              struct set_list *all) MUST_USE;
/* The conjunction of an array's rules about the item at an index. */
enum status array_set_conjunction_of(struct schema_state *state, const struct array_set *array,
                                     uint32_t index, uint32_t *out) MUST_USE;

#endif
