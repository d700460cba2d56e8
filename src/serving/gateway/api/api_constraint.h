/* SPDX-License-Identifier: Apache-2.0
 * Fields that bind an answer's text: OpenAI's, vLLM's, SGLang's and llama.cpp's. Each becomes a form
 * (serving/grammar/form.h), written as JSON without spaces, a schema's members in their order. What
 * a schema, a pattern or a grammar says is looked at when the form is compiled, and not here. Fields
 * that say the same may stand together; those that differ are refused, naming both.
 */
#ifndef SERVING_GATEWAY_API_API_CONSTRAINT_H
#define SERVING_GATEWAY_API_API_CONSTRAINT_H

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

/* The fields of chats and completions that bind content ('strict_order' was read before). */
bool api_constraint_read(struct api_reader *reader, struct api_request *out);

/* A format as 'response_format' is one: {"type": "text"}, "json_object" or "json_schema", whose
 * "schema" stands in it or in its member "json_schema". `field` is a literal. */
bool api_constraint_read_format(struct api_reader *reader, const char *field,
                                const struct tree *format, struct api_request *out);

#endif
