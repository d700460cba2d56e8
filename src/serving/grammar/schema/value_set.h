/* SPDX-License-Identifier: Apache-2.0
 * Intersection (and), union (or) and difference (without) of value sets (schema_state.h). Unions of
 * more than VALUE_UNION_MAX array sets or object sets are refused, and so are differences that
 * cannot be written as such unions.
 */
#pragma once

#include "serving/grammar/schema/schema_state.h"

#define VALUE_UNION_MAX 512 /* array sets, and object sets, of a value set */

/* Initializes state->value_any and its parts. */
enum status value_set_open(struct schema_state *state) MUST_USE;

/* `out` may be one of the operands. */
enum status value_set_and(struct schema_state *state, const struct value_set *a,
                          const struct value_set *b, struct value_set *out) MUST_USE;
enum status value_set_or(struct schema_state *state, const struct value_set *a,
                         const struct value_set *b, struct value_set *out) MUST_USE;
enum status value_set_without(struct schema_state *state, const struct value_set *a,
                              const struct value_set *b, struct value_set *out) MUST_USE;

/* True if a key set contains a name. */
bool object_set_keys_have_name(const struct schema_state *state, uint32_t key_set, uint32_t name);
/* The same for a key that no key set lists by name. `inside` bit i: it is in languages[i]. */
bool object_set_keys_have_other(const struct schema_state *state, uint32_t key_set,
                                const uint32_t *languages, uint32_t language_count,
                                uint64_t inside);
/* The conjunction that an object set requires of the property `name`. */
enum status object_set_conjunction_of(struct schema_state *state, const struct object_set *object,
                                      uint32_t name, uint32_t *out) MUST_USE;

/* Makes a union of a single array set or object set, which is copied into the arena. */
enum status value_set_list_of(struct schema_state *state, const void *set, size_t bytes,
                              struct set_list *out) MUST_USE;

/* Removes spellings of numbers that answers may not contain (schema_options.any_spelling). */
enum status value_set_spell(struct schema_state *state, struct value_set *set) MUST_USE;

/* ---- objects: object_set.c ---- */

/* Sets *out to the intersection, or to NULL if it is empty. */
enum status object_set_and(struct schema_state *state, const void *a, const void *b,
                           const void **out) MUST_USE;
/* Adds an object set to a union, unless an equal one is in it. STATUS_TOO_LARGE: it is full. */
enum status object_set_add(struct schema_state *state, struct set_list *all,
                           const void *object) MUST_USE;
/* Removes object sets that are subsets of another one, as far as can be determined. */
enum status object_set_thin(struct schema_state *state, struct set_list *all) MUST_USE;
/* Adds the difference of `a` and `b` to the union `all`. Returns STATUS_UNSUPPORTED if it
 * is not a union of object sets. */
enum status object_set_without(struct schema_state *state, const void *a, const void *b,
                               struct set_list *all) MUST_USE;

/* ---- arrays: array_set.c ---- */

/* The same for array sets. array_set_and returns STATUS_UNSUPPORTED if both have contains. */
enum status array_set_and(struct schema_state *state, const void *a, const void *b,
                          const void **out) MUST_USE;
enum status array_set_add(struct schema_state *state, struct set_list *all,
                          const void *array) MUST_USE;
enum status array_set_without(struct schema_state *state, const void *a, const void *b,
                              struct set_list *all) MUST_USE;
/* The conjunction that an array set requires of the item at an index. */
enum status array_set_conjunction_of(struct schema_state *state, const struct array_set *array,
                                     uint32_t index, uint32_t *out) MUST_USE;
