/* SPDX-License-Identifier: Apache-2.0
 * From value sets to shapes, the second half: what is live of a graph becomes a shape program.
 */
#ifndef SERVING_GRAMMAR_SCHEMA_SHAPE_BUILD_H
#define SERVING_GRAMMAR_SCHEMA_SHAPE_BUILD_H

#include "serving/grammar/schema/shape_graph.h"

/* `root` must be live. Everything of the program lies in `arena`. */
enum status shape_build(struct arena *arena, struct shape_graph *graph, uint32_t root,
                        const struct shape_program **out) MUST_USE;

#endif
