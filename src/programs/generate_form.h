/* SPDX-License-Identifier: Apache-2.0
 * What `generate` can bind its answers to, in builds with serving: a JSON schema, a regular
 * expression or a GBNF grammar, held by the same objects as a server's (serving/constraint). Behind
 * thinking where the prompt is in words and its answer may think; from the first token on where the
 * prompt is token ids.
 */
#ifndef PROGRAMS_GENERATE_FORM_H
#define PROGRAMS_GENERATE_FORM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct generate_form;
struct generate_text;

struct generate_form_values {
    const char *schema, *regex, *grammar;
};

/* Rows for an option table; its values, of the type TYPE, must have a member `form`. */
#define GENERATE_FORM_OPTIONS(TYPE)                                                                \
    OPTION_ROW("schema", OPTION_TEXT, NULL, "a file with a JSON schema for the answer",            \
               .offset = offsetof(TYPE, form.schema)),                                             \
        OPTION_ROW("regex", OPTION_TEXT, NULL, "a regular expression (ECMA) for the whole answer", \
                   .offset = offsetof(TYPE, form.regex)),                                          \
        OPTION_ROW("grammar", OPTION_TEXT, NULL, "a file with a grammar (GBNF) for the answer",    \
                   .offset = offsetof(TYPE, form.grammar))

/* How many of them are given. */
static inline int generate_form_count(const struct generate_form_values *values) {
    return (values->schema != NULL) + (values->regex != NULL) + (values->grammar != NULL);
}

/* Compiles the one that is given, without the model's weights. `text` has the prompt; NULL: it is
 * token ids, and the tokenizer is read from `directory`. Errors name the file, or the option, and
 * say what cannot be held. */
enum status generate_form_open(const struct generate_form_values *values, const char *directory,
                               const struct generate_text *text, struct generate_form **form_out,
                               struct error *error) MUST_USE;
void generate_form_close(struct generate_form *form);

/* Begins answer_count answers of a model with `rows` logits; `stops` end them and are kept. */
enum status generate_form_begin(struct generate_form *form, uint32_t rows, uint32_t answer_count,
                                const uint32_t *stops, uint32_t stop_count,
                                struct error *error) MUST_USE;

/* The mask of the answer's next token, valid until the next call; NULL: all tokens. False: none may come. */
bool generate_form_mask(struct generate_form *form, uint32_t answer, const uint64_t **mask_out);

/* The answer has got a token. */
void generate_form_push(struct generate_form *form, uint32_t answer, uint32_t token);

#endif
