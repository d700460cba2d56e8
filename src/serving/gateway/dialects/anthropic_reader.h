/* SPDX-License-Identifier: Apache-2.0
 * What a body of Anthropic's Messages API says that its rows in the table of fields leave to it:
 * the conversation and its tools, which become messages and tools in the shape of OpenAI's chat
 * API, and the fields that are objects.
 *
 *   system                one system message in front
 *   user: tool_result     a tool message each, before the rest of what that user says
 *   assistant: thinking   reasoning_content; redacted_thinking, which nobody here can read, is left out
 *   assistant: tool_use   a call, whose arguments are the JSON text of its input
 *
 * A conversation that ends with an assistant's message asks for that message to go on.
 */
#ifndef SERVING_GATEWAY_DIALECTS_ANTHROPIC_READER_H
#define SERVING_GATEWAY_DIALECTS_ANTHROPIC_READER_H

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

bool anthropic_reader_read(struct api_reader *reader, struct api_request *out);

#endif
