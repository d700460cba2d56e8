/* SPDX-License-Identifier: Apache-2.0
 * The text side of `generate`, in builds with serving: a prompt through the chat template and the
 * tokenizer, and the answer's tokens back into text as they come.
 */
#ifndef PROGRAMS_GENERATE_TEXT_H
#define PROGRAMS_GENERATE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/weights/shape.h"
#include "serving/text/token_stream.h"

struct generate_text;

struct answer_ends {
    uint32_t tokens[LIMIT_STOP_TOKENS], count;
};

/* Reads what a model directory has of text, and the template of the path `chat_template` (NULL: the
 * checkpoint's own). STATUS_NOT_FOUND: it has no tokenizer.json. */
enum status generate_text_open(const char *directory, const char *chat_template,
                               struct generate_text **text_out, struct error *error) MUST_USE;
void generate_text_close(struct generate_text *text);

/* The prompt as a user's message, in which special tokens are recognized if `content_specials` (as
 * it stands, behind bos, if the checkpoint has no chat template). The tokens belong to `text`. */
enum status generate_text_prompt(struct generate_text *text, const char *prompt,
                                 bool content_specials, const uint32_t **tokens_out,
                                 uint32_t *count_out, struct error *error) MUST_USE;

/* Finds the tokens that end an answer of the model in `directory`, by its text files and its `shape`;
 * `text` may be NULL: its prompts are token ids. */
enum status generate_text_ends(struct generate_text *text, const char *directory,
                               const struct shape *shape, struct answer_ends *out,
                               struct error *error) MUST_USE;

const struct tokenizer *generate_text_tokenizer(const struct generate_text *text);
/* How the answer to the prompt starts. */
enum token_stream_mode generate_text_mode(const struct generate_text *text);

/* Prints what the token makes certain: content to standard output, reasoning to standard error,
 * dimmed, if that is a terminal. */
void generate_text_push(struct generate_text *text, uint32_t token);
void generate_text_finish(struct generate_text *text);

#endif
