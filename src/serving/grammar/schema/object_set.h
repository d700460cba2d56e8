/* SPDX-License-Identifier: Apache-2.0
 * Object sets (schema_state.h): what both of two hold, and what one holds without the other.
 */
#ifndef SERVING_GRAMMAR_SCHEMA_OBJECT_SET_H
#define SERVING_GRAMMAR_SCHEMA_OBJECT_SET_H

#include "serving/grammar/schema/schema_state.h"

/* *out is NULL where no object is in both. */
enum status object_set_and(struct schema_state *state, const struct object_set *a,
                           const struct object_set *b, const struct object_set **out) MUST_USE;

/* A union under way, in the arena. */
struct object_union {
    const struct object_set **objects;
    uint32_t count, capacity;
};

/* Unless it is in the union already. STATUS_TOO_LARGE. */
enum status object_set_union_add(struct schema_state *state, struct object_union *all,
                                 const struct object_set *object) MUST_USE;
/* Removes sets that another one of the `count` contains, as far as can be determined. */
enum status object_set_union_thin(struct schema_state *state, const struct object_set **objects,
                                  uint32_t *count) MUST_USE;
/* Adds to `all` what `a` holds without `b`. STATUS_UNSUPPORTED: no union of object sets is that. */
enum status object_set_without(struct schema_state *state, const struct object_set *a,
                               const struct object_set *b, struct object_union *all) MUST_USE;

#endif
