/* SPDX-License-Identifier: Apache-2.0
 * What a body of OpenAI's Responses API says that its rows in the table of fields leave to it: the
 * items of its input, which become messages in the shape of OpenAI's chat API, its tools, and the
 * fields that are objects. Nothing is stored here, so items of earlier answers come with the input.
 *
 *   instructions           one system message in front
 *   message                a message; what an assistant says in a row is one
 *   reasoning              reasoning_content of the assistant's message: its text, else what this
 *                          server sealed, else its summary
 *   function_call, custom_tool_call
 *                          a call of the assistant's message
 *   function_call_output, custom_tool_call_output
 *                          a tool message
 *
 * What every answer repeats of its request is written here, too (struct api_answer's `told`).
 */
#ifndef SERVING_GATEWAY_DIALECTS_RESPONSES_READER_H
#define SERVING_GATEWAY_DIALECTS_RESPONSES_READER_H

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

/* Instructions and tools of more bytes than this, as JSON, are not repeated. */
#define RESPONSES_READER_TOLD_BYTES_MAX ((size_t)256 << 10)

/* In front of a reasoning's text where it stands as "encrypted_content". It is no secret: the same
 * answer says it openly. Clients that keep no reasoning_text send this alone back. */
#define RESPONSES_READER_SEAL "fathom.reasoning.1:"

bool responses_reader_read(struct api_reader *reader, struct api_request *out);

#endif
