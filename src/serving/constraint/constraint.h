/* SPDX-License-Identifier: Apache-2.0
 * A constraint: what an answer's text has to be, from where on. It travels as text from the gateway
 * to the rank that chooses the tokens, and is compiled in both places: there to refuse it before
 * anything is computed, here to obey it.
 *
 *   {"form": FORM}                        from the answer's first token on
 *   {"behind": "</think>", "form": FORM}  from behind that token, which the answer has to bring
 *   {"at": "<tool_call>", "form": FORM}   free, until that token comes, which the form begins with;
 *                                         an answer that never brings it is free
 *   both                                  free up to `behind`, which must come; then until `at`
 *   {"opens": "<think>", "behind": ...}   `behind` counts only where the answer's first token is
 *                                         `opens`, which the form does not forbid; else the rest
 *                                         holds from the first token on
 *
 * The tokens are added tokens of the model's tokenizer, by their texts. A FORM is what
 * serving/grammar/form.h says. Blanks are significant only in strings; equal texts are equal
 * constraints, and caches know them by their hash.
 */
#ifndef SERVING_CONSTRAINT_CONSTRAINT_H
#define SERVING_CONSTRAINT_CONSTRAINT_H

#include "serving/grammar/form.h"
#include "serving/grammar/matcher.h"
#include "serving/text/tokenizer.h"

struct constraint {
    uint32_t opens, behind, at; /* tokens; TOKEN_NONE: it has no such one */
    const struct grammar_program *form;
};

/* Memory that compiling gets, the same wherever it is done: what one holds, all hold. Little of it
 * is touched. */
#define CONSTRAINT_RESULT_BYTES ((size_t)256 << 20)
#define CONSTRAINT_SCRATCH_BYTES ((size_t)512 << 20)

/* Reads and compiles. The result lies in `arena` and refers to nothing else; `scratch` is given
 * back. `tokenizer` tells the tokens' texts. Errors as of schema_compile: STATUS_INVALID,
 * STATUS_UNSUPPORTED, STATUS_TOO_LARGE, STATUS_NO_MEMORY, each with one line for who asked. */
enum status constraint_compile(struct arena *arena, struct arena *scratch, struct bytes text,
                               const struct tokenizer *tokenizer, const struct constraint **out,
                               struct error *error) MUST_USE;

#endif
