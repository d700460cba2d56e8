/* SPDX-License-Identifier: Apache-2.0
 * The text side of `generate`, in builds with serving: a prompt through the chat template and the
 * tokenizer, the answer's tokens back into text as they come, and what answers are bound to: a JSON
 * schema, a regular expression or a GBNF grammar, held by the same objects as a server's
 * (serving/constraint). A constraint begins behind the thinking if the prompt is in words and its
 * answer may think, and with the first token if the prompt is token ids.
 */
#pragma once

#include "compute/weights/shape.h"

struct generate_text;

struct generate_text_values {
    const char *content_specials, *chat_template; /* of a prompt in words */
    const char *schema, *regex, *grammar;         /* at most one is not NULL */
};

static inline int generate_text_constraint_count(const struct generate_text_values *values) {
    return (values->schema != NULL) + (values->regex != NULL) + (values->grammar != NULL);
}

struct answer_ends {
    uint32_t tokens[LIMIT_STOP_TOKENS], count;
};

/* Reads the text files of a model directory, tokenizes the prompt (NULL: it is token ids) and
 * compiles the constraint, without the model's weights. The prompt is a user's message, or stands
 * behind bos as it is if the checkpoint has no chat template. Errors name the file or the option.
 * STATUS_NOT_FOUND: there is no tokenizer.json. */
enum status generate_text_open(const struct generate_text_values *values, const char *directory,
                               const char *prompt, struct generate_text **text_out,
                               struct error *error) MUST_USE;
void generate_text_close(struct generate_text *text);

/* The tokens of a prompt in words; they belong to `text`. */
const uint32_t *generate_text_prompt(const struct generate_text *text, uint32_t *count_out);

/* Finds the tokens that end an answer of a model with this shape, and begins answer_count
 * constrained answers, if there is a constraint; these keep `ends_out`. */
enum status generate_text_begin(struct generate_text *text, const struct shape *shape,
                                uint32_t answer_count, struct answer_ends *ends_out,
                                struct error *error) MUST_USE;

/* The mask of the answer's next token, valid until the next call; NULL: all tokens. Returns false if
 * no token may come. */
bool generate_text_mask(struct generate_text *text, uint32_t answer, const uint64_t **mask_out);

/* Adds a token to a constrained answer. */
void generate_text_push(struct generate_text *text, uint32_t answer, uint32_t token);

/* Prints the text that is certain with this token: content to standard output, reasoning to standard
 * error, dimmed, if that is a terminal. */
void generate_text_print(struct generate_text *text, uint32_t token);
void generate_text_finish(struct generate_text *text);
