/* SPDX-License-Identifier: Apache-2.0
 * JSON schemas, drafts 4 to 2020-12, compiled to shapes. What cannot be held exactly is refused by
 * its keyword, never half obeyed. Hostile schemas cost bounded work.
 */
#ifndef SERVING_GRAMMAR_SCHEMA_SCHEMA_H
#define SERVING_GRAMMAR_SCHEMA_SCHEMA_H

#include "base/tree.h"
#include "serving/grammar/schema/value_shape.h"

struct schema_limits {
    uint32_t states_max; /* of one automaton */
    uint64_t steps_max;  /* of all work on automata and shapes */
    uint32_t shapes_max;
    uint32_t depth_max;
};

extern const struct schema_limits schema_limits_usual;

struct schema_options {
    bool
        any_spelling; /* numbers in every way that means them, to judge texts; else as answers write
                        * them: integers as digits alone, nothing that a double does not hold */
    bool in_order; /* properties come as the schema lists them, keys of no property behind them */
};

/* `schema` is an object or a boolean. Results lie in `arena`; `scratch` is given back. Errors
 * name the keyword as spelt in the schema and its place ("#/properties/a/not: ...").
 * STATUS_INVALID: no schema (a keyword of a wrong type, a $ref to nothing, a pattern that is
 * none), or one that no value fulfils; STATUS_UNSUPPORTED: a keyword that we cannot hold;
 * STATUS_TOO_LARGE: a limit, with the keyword that was worked on; STATUS_NO_MEMORY.
 * `ignored_out` (may be NULL) lists formats that no draft defines, separated by ", ". */
enum status schema_compile(struct arena *arena, struct arena *scratch, const struct tree *schema,
                           const struct schema_options *options, const struct schema_limits *limits,
                           const struct shape_program **out, struct bytes *ignored_out,
                           struct error *error) MUST_USE;

#endif
