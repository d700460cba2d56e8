/* SPDX-License-Identifier: Apache-2.0
 * The keywords of a schema. Each function below reads a group of keywords and intersects the
 * reader's value set with the values that they allow.
 */
#pragma once

#include "serving/grammar/schema/schema_reader.h"

/* Finds the values that satisfy a conjunction, by reading its subschemas with all of their
 * keywords. This is schema_state.read. */
enum status schema_keywords_read(struct schema_state *state, uint32_t conjunction,
                                 struct value_set *out) MUST_USE;

/* ---- schema_constant.c: enum and const ---- */

enum status schema_constant_read_constants(struct schema_reader *reader) MUST_USE;
/* The set that contains exactly one JSON value. */
enum status schema_constant_read_constant(struct schema_reader *reader, const struct tree *value,
                                          struct value_set *out) MUST_USE;
/* The text of a number as the schema spells it. It is in the arena. */
enum status schema_constant_read_number_text(struct schema_reader *reader, const struct tree *value,
                                             struct bytes *out) MUST_USE;

/* ---- schema_scalars.c: numbers and strings ---- */

enum status schema_scalars_read_scalars(struct schema_reader *reader) MUST_USE;

/* ---- schema_containers.c: arrays and objects ---- */

enum status schema_containers_read_arrays(struct schema_reader *reader) MUST_USE;
enum status schema_containers_read_objects(struct schema_reader *reader) MUST_USE;
enum status schema_containers_read_unevaluated(struct schema_reader *reader) MUST_USE;
