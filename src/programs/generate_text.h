/* SPDX-License-Identifier: Apache-2.0
 * Text for `generate`, in builds with serving. It turns a prompt into tokens with the chat template
 * and the tokenizer, and the answer's tokens into text as they arrive. It also constrains answers
 * to a JSON schema, a regular expression or a GBNF grammar, with the same code as a server
 * (serving/constraint). For a prompt of token ids the constraint begins with the first token. For a
 * prompt of text it begins after the reasoning, if the answer may have any.
 */
#pragma once

#include "command/json_print.h"
#include "compute/weights/shape.h"
#include "contract/sampling.h"

struct generate_text;

struct generate_text_values {
    const char *content_specials, *chat_template; /* for a prompt of text */
    const char *schema, *regex, *grammar;         /* at most one is not NULL */
};

static inline int generate_text_constraint_count(const struct generate_text_values *values) {
    return (values->schema != NULL) + (values->regex != NULL) + (values->grammar != NULL);
}

struct answer_ends {
    uint32_t tokens[LIMIT_STOP_TOKENS], count;
};

/* Reads a model directory's tokenizer and chat template, tokenizes the prompt (NULL: it is token
 * ids) and compiles the constraint. Needs no weights. The prompt is a user message; if there is no
 * chat template, it is BOS and the plain text. Errors name the file or the option.
 * STATUS_NOT_FOUND: there is no tokenizer. */
enum status generate_text_open(const struct generate_text_values *values, const char *directory,
                               const char *prompt, struct generate_text **text_out,
                               struct error *error) MUST_USE;
void generate_text_close(struct generate_text *text);

/* The tokens of a prompt of text. They belong to `text`. */
const uint32_t *generate_text_prompt(const struct generate_text *text, uint32_t *count_out);

/* Finds the stop tokens of a model with this shape. If there is a constraint, begins answer_count
 * constrained answers, which keep a pointer to `ends_out`. */
enum status generate_text_begin(struct generate_text *text, const struct shape *shape,
                                uint32_t answer_count, struct answer_ends *ends_out,
                                struct error *error) MUST_USE;

/* Reads the model's own sampling parameters: those of generation_config.json, or else temperature
 * 1. */
enum status generate_text_sampling(const char *directory, struct sampling *out,
                                   struct error *error) MUST_USE;

/* The mask of the answer's next token, valid until the next call. NULL: all tokens are allowed.
 * Returns false if no token is allowed. */
bool generate_text_mask(struct generate_text *text, uint32_t answer, const uint64_t **mask_out);

/* Adds a token to a constrained answer. */
void generate_text_push(struct generate_text *text, uint32_t answer, uint32_t token);

/* Prints the text that this token completes, as answer_view.h has it: thoughts are apart. */
void generate_text_print(struct generate_text *text, uint32_t token);
void generate_text_finish(struct generate_text *text);

/* Prints the members "text" and "reasoning" of an answer of these tokens. */
void generate_text_print_json(struct generate_text *text, const uint32_t *tokens, uint32_t count,
                              struct json_print *print);
