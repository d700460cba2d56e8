/* SPDX-License-Identifier: Apache-2.0
 * Several shape programs as one: a form may ask for values of several schemas.
 */
#ifndef SERVING_GRAMMAR_SCHEMA_SHAPE_JOIN_H
#define SERVING_GRAMMAR_SCHEMA_SHAPE_JOIN_H

#include "serving/grammar/schema/value_shape.h"

/* Copies all programs into one; roots_out [count] are their roots in it. Automata are kept by
 * reference. STATUS_NO_MEMORY. */
enum status shape_join(struct arena *arena, const struct shape_program *const *programs,
                       size_t count, uint32_t *roots_out,
                       const struct shape_program **out) MUST_USE;

#endif
