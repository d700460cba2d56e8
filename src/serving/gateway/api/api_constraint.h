/* SPDX-License-Identifier: Apache-2.0
 * Fields of constrained decoding (structured outputs): OpenAI's, vLLM's, SGLang's and llama.cpp's.
 * Each becomes a form (serving/grammar/rules/form.h), written as JSON without spaces, which keeps
 * the order of a schema's members. Schemas, patterns and grammars are checked when the form is
 * compiled, not here. Several fields are accepted if they mean the same. If they differ, the error
 * names both.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

/* Reads the fields of chats and completions that constrain content. 'strict_order' must have been
 * read. */
bool api_constraint_read(struct api_reader *reader, struct api_request *out);

/* Reads a format like 'response_format': {"type": "text"}, "json_object" or "json_schema", with
 * "schema" in it or in its member "json_schema". `field` is a literal, the field's name in
 * errors. */
bool api_constraint_read_format(struct api_reader *reader, const char *field,
                                const struct tree *format, struct api_request *out);

/* Reads a format like Ollama's 'format': "json" for any object, a schema, or "" for none. */
bool api_constraint_read_plain(struct api_reader *reader, const char *field,
                               const struct tree *format, struct api_request *out);
