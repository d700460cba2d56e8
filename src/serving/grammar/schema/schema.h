/* SPDX-License-Identifier: Apache-2.0
 * Compiles JSON Schemas (drafts 4 to 2020-12) to shapes. A schema that cannot be enforced exactly is
 * refused with the keyword; it is never enforced in part. Hostile schemas cost bounded work.
 */
#pragma once

#include "base/tree.h"
#include "serving/grammar/schema/value_shape.h"

struct schema_limits {
    uint32_t states_max; /* of one DFA */
    uint64_t steps_max;  /* of all work */
    uint32_t shapes_max;
    uint32_t depth_max;
};

extern const struct schema_limits schema_limits_usual;

struct schema_options {
    /* Accept numbers in every spelling, to validate existing texts. Otherwise only those that answers
     * may contain: integers without fraction and exponent, and nothing beyond a double. */
    bool any_spelling;
    bool in_order; /* listed properties come in the order of the schema, other keys after them */
};

/* `schema` must be an object or a boolean. The program is in `arena`; `scratch` is cleared. Errors
 * begin with the path of the keyword ("#/properties/a/not: ..."). STATUS_INVALID: not a valid schema
 * (a keyword of a wrong type, a dangling $ref, an invalid pattern), or no value satisfies it.
 * STATUS_UNSUPPORTED: the keyword cannot be enforced. STATUS_TOO_LARGE: a limit was reached while
 * this keyword was processed. STATUS_NO_MEMORY. `ignored_out` (may be NULL) lists formats that no
 * draft defines, separated by ", ". */
enum status schema_compile(struct arena *arena, struct arena *scratch, const struct tree *schema,
                           const struct schema_options *options, const struct schema_limits *limits,
                           const struct shape_program **out, struct bytes *ignored_out,
                           struct error *error) MUST_USE;
