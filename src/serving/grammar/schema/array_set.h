/* SPDX-License-Identifier: Apache-2.0
 * Array sets (schema_state.h): what both of two hold, and what one holds without the other.
 */
#ifndef SERVING_GRAMMAR_SCHEMA_ARRAY_SET_H
#define SERVING_GRAMMAR_SCHEMA_ARRAY_SET_H

#include "serving/grammar/schema/schema_state.h"

/* *out is NULL where no array is in both. STATUS_UNSUPPORTED: both count items. */
enum status array_set_and(struct schema_state *state, const struct array_set *a,
                          const struct array_set *b, const struct array_set **out) MUST_USE;

/* A union under way, in the arena. */
struct array_union {
    const struct array_set **arrays;
    uint32_t count, capacity;
};

enum status array_set_union_add(struct schema_state *state, struct array_union *all,
                                const struct array_set *array) MUST_USE;
/* Adds to `all` what `a` holds without `b`. STATUS_UNSUPPORTED: no union of array sets is that. */
enum status array_set_without(struct schema_state *state, const struct array_set *a,
                              const struct array_set *b, struct array_union *all) MUST_USE;
/* The claims of an array's rules about the item at an index. */
enum status array_set_claims_of(struct schema_state *state, const struct array_set *array,
                                uint32_t index, uint32_t *out) MUST_USE;

#endif
