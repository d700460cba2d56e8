/* SPDX-License-Identifier: Apache-2.0
 * The text files of a model, from its folder or out of the metadata of a GGUF file, which has
 * tokenizer, special tokens and chat template. Keys: `tokenizer.ggml` and `tokenizer.chat_template`
 * of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; the patterns that split words are
 * those of the models' own tokenizer.json.
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"

/* Reads a file of the model, such as "tokenizer.json", and appends a terminator. `model` is a
 * folder or the path of a GGUF file. path_out (of path_bytes) is its name for messages. The caller
 * frees out->data. STATUS_NOT_FOUND: the model has none. */
enum status gguf_text_take(const char *model, const char *name, size_t bytes_max, char *path_out,
                           size_t path_bytes, struct bytes *out, struct error *error) MUST_USE;
