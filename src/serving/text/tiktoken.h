/* SPDX-License-Identifier: Apache-2.0
 * The files of a tokenizer of the `tiktoken` library, as Kimi K2 and Moonlight have them. The file
 * tiktoken.model has a line for each token: its bytes in base64, a space, and its rank, which is
 * its id. It has no pattern and no special tokens. The pattern is that of Moonshot's
 * tokenization_kimi.py. The 256 ids after the last rank are special tokens: "added_tokens_decoder"
 * of tokenizer_config.json has the names of some, and the others are <|reserved_token_ID|>.
 */
#pragma once

#include "base/limits.h"
#include "base/tree.h"

#define TIKTOKEN_RESERVED 256          /* ids after the last rank, all special tokens */
#define TIKTOKEN_TOKEN_BYTES_MAX 1023u /* of one token, because each of its splits is looked up */

/* The pattern that splits text into words, in the dialect of base/pattern.h. */
extern const struct bytes tiktoken_pattern;

/* Moonshot's program gives text to the library in pieces of at most so many characters. A piece
 * also ends within a run of more than TIKTOKEN_RUN blanks, or of more such characters without
 * blanks. */
#define TIKTOKEN_WINDOW 400000u
#define TIKTOKEN_RUN 25000u

/* The bytes of the first piece of `text`, which is valid UTF-8 and not empty. *window is what is
 * left of TIKTOKEN_WINDOW, its value before the first piece of a text. */
size_t tiktoken_piece(struct bytes text, uint32_t *window);

/* Reads the lines of tiktoken.model. The tokens, in order of rank, are allocated in `scratch`.
 * Messages use `name` for the file. Returns STATUS_INVALID for a line that is not base64, a space
 * and the rank of its place (with the line), STATUS_TOO_LARGE and STATUS_NO_MEMORY. */
enum status tiktoken_read(struct arena *scratch, struct bytes text, const char *name,
                          const struct bytes **tokens_out, uint32_t *count_out,
                          struct error *error) MUST_USE;

/* Makes the list of special tokens, in the form of "added_tokens" of tokenizer.json. `config` is
 * the root of tokenizer_config.json; NULL: there is none. `count` is the number of ranks. */
enum status tiktoken_read_added(struct arena *scratch, const struct tree *config, uint32_t count,
                                const char *config_name, const struct tree **out,
                                struct error *error) MUST_USE;
