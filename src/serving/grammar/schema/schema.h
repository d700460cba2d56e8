/* SPDX-License-Identifier: Apache-2.0
 * Compiles JSON Schemas (drafts 4 to 2020-12) to shapes. A schema that cannot be enforced exactly
 * is refused with an error that names the keyword. No schema is enforced in part. Hostile schemas
 * cost bounded work.
 */
#pragma once

#include "base/tree.h"
#include "serving/grammar/schema/value_shape.h"

struct schema_limits {
    uint32_t states_max; /* for one DFA */
    uint64_t steps_max;  /* for the whole compilation */
    uint32_t shapes_max;
    uint32_t depth_max;
};

extern const struct schema_limits schema_limits_usual;

struct schema_options {
    /* Accept numbers in every spelling, to validate existing texts. Otherwise accept only spellings
     * that answers may contain: integers have no fraction or exponent, and all fit in a double. */
    bool any_spelling;
    bool in_order; /* listed properties come in the order of the schema, other keys after them */
};

/* Compiles a schema, which must be an object or a boolean. The program is in `arena`. Temporary
 * memory comes from `scratch` and is freed on return. Errors begin with the path of the keyword
 * ("#/properties/a/not: ..."). Returns STATUS_INVALID if the schema is not valid (a keyword of a
 * wrong type, a dangling $ref, an invalid pattern) or no value satisfies it, STATUS_UNSUPPORTED if
 * the keyword cannot be enforced, STATUS_TOO_LARGE if a limit was reached at this keyword, and
 * STATUS_NO_MEMORY. *ignored_out (`ignored_out` may be NULL) lists formats that no draft defines,
 * separated by ", ". */
enum status schema_compile(struct arena *arena, struct arena *scratch, const struct tree *schema,
                           const struct schema_options *options, const struct schema_limits *limits,
                           const struct shape_program **out, struct bytes *ignored_out,
                           struct error *error) MUST_USE;
