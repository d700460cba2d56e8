/* SPDX-License-Identifier: Apache-2.0
 * A form is a JSON description of the texts that an answer may be. This file compiles forms to
 * grammar programs, which the matcher runs.
 *
 *   {"schema": SCHEMA, "in_order": BOOL}  a JSON text valid against the schema (schema.h); also
 *                                         "any_spelling": BOOL
 *   {"regex": PATTERN}                    the text matches as a whole (ECMA, without lookaround)
 *   {"choice": [TEXT, ...]}               one of these texts
 *   {"gbnf": GRAMMAR}                     a text of llama.cpp's GBNF grammar
 *   {"text": TEXT}                        exactly this text
 *   {"token": TEXT}                       the added token with this text
 *   {"sequence": [FORM, ...]}             one after the other
 *   {"any": [FORM, ...]}                  one of these forms
 *   {"repeat": FORM, "least": N, "most": N}  no "most": unbounded
 *
 * Ordinary tokens are matched by their bytes, independent of how the text is split into tokens. An
 * added token is matched only by {"token": ...}.
 */
#pragma once

#include "base/tree.h"
#include "serving/grammar/schema/schema.h"
#include "serving/text/tokenizer.h"

struct grammar_program;

/* Compiles a form. The program is in `arena` and refers to nothing outside of it. Temporary memory
 * comes from `scratch` and is freed on return. `tokenizer` looks up added tokens and may be NULL if
 * the form names none. Errors as in schema_compile: STATUS_INVALID, STATUS_UNSUPPORTED,
 * STATUS_TOO_LARGE, STATUS_NO_MEMORY. Errors in grammars name the line and rule, errors in regular
 * expressions the byte. */
enum status form_compile(struct arena *arena, struct arena *scratch, const struct tree *form,
                         const struct tokenizer *tokenizer, const struct schema_limits *limits,
                         const struct grammar_program **out, struct error *error) MUST_USE;
