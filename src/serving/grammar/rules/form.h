/* SPDX-License-Identifier: Apache-2.0
 * Forms: what a text can be bound to, written as JSON, and compiled to one program for the matcher.
 *
 *   {"schema": SCHEMA, "in_order": BOOL}  a JSON text that fulfils the schema (schema.h); also
 *                                         "any_spelling": BOOL
 *   {"regex": PATTERN}                    the whole text matches (ECMA, as "pattern"; no lookarounds)
 *   {"choice": [TEXT, ...]}               one of them
 *   {"gbnf": GRAMMAR}                     llama.cpp's GBNF, from its rule "root" on
 *   {"text": TEXT}                        these bytes
 *   {"token": TEXT}                       the added token with this text, as that token
 *   {"sequence": [FORM, ...]}             one behind the other
 *   {"any": [FORM, ...]}                  one of them
 *   {"repeat": FORM, "least": N, "most": N}  `most` left out: no bound
 *
 * Bytes of ordinary tokens are matched by bytes, however the text is cut into tokens; an added token
 * is matched by a {"token": ...} alone.
 */
#ifndef SERVING_GRAMMAR_RULES_FORM_H
#define SERVING_GRAMMAR_RULES_FORM_H

#include "base/tree.h"
#include "serving/grammar/schema/schema.h"
#include "serving/text/tokenizer.h"

struct grammar_program;

/* `form` is a form as above. Results lie in `arena` and refer to nothing else; `scratch` is given
 * back. `tokenizer` (may be NULL where no form names a token) knows the added tokens. Errors as of
 * schema_compile: STATUS_INVALID, STATUS_UNSUPPORTED, STATUS_TOO_LARGE, STATUS_NO_MEMORY; a
 * grammar's name its line and rule, a regular expression's its place. */
enum status form_compile(struct arena *arena, struct arena *scratch, const struct tree *form,
                         const struct tokenizer *tokenizer, const struct schema_limits *limits,
                         const struct grammar_program **out, struct error *error) MUST_USE;

#endif
