/* SPDX-License-Identifier: Apache-2.0
 * The constraint of an answer's text, and the token from which it applies. The gateway sends it as
 * text to the rank that samples the tokens. It is compiled in both places: on the gateway's host,
 * to reject an invalid constraint before anything is computed, and at the rank, to enforce it.
 *
 *   {"form": FORM}                        from the answer's first token on
 *   {"behind": "</think>", "form": FORM}  after that token, which the answer must contain
 *   {"at": "<tool_call>", "form": FORM}   free until that token, which starts the form; an answer
 *                                         that never contains it is free
 *   both                                  free up to `behind`, which is required; then until `at`
 *   {"opens": "<think>", "behind": ...}   `behind` counts only if the answer's first token is
 *                                         `opens`, which the form does not forbid; otherwise the
 *                                         rest applies from the first token on
 *
 * The tokens are added tokens of the model's tokenizer, given by their texts.
 * serving/grammar/rules/form.h defines FORM. Spaces are significant only in strings. Equal texts
 * are equal constraints, and caches find them by their hash.
 */
#pragma once

#include "serving/grammar/matcher/matcher.h"
#include "serving/grammar/rules/form.h"
#include "serving/text/tokenizer.h"

struct constraint {
    uint32_t opens, behind, at; /* token ids; TOKEN_NONE: absent */
    const struct grammar_program *form;
};

/* Memory for compiling. The sizes are equal everywhere, so that all places accept the same
 * constraints. Usually only a small part is touched. */
#define CONSTRAINT_RESULT_BYTES ((size_t)256 << 20)
#define CONSTRAINT_SCRATCH_BYTES ((size_t)512 << 20)

/* Parses and compiles a constraint. The result is in `arena` and refers to nothing else. Temporary
 * memory comes from `scratch`, which may contain `text`, and is freed on return. Returns the errors
 * of schema_compile, each with one line for the client: STATUS_INVALID, STATUS_UNSUPPORTED,
 * STATUS_TOO_LARGE, STATUS_NO_MEMORY. */
enum status constraint_compile(struct arena *arena, struct arena *scratch, struct bytes text,
                               const struct tokenizer *tokenizer, const struct constraint **out,
                               struct error *error) MUST_USE;
