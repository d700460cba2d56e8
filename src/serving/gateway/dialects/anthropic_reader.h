/* SPDX-License-Identifier: Apache-2.0
 * Reads the parts of an Anthropic Messages body that the table of fields leaves to the dialect. The
 * conversation and its tools are converted to messages and tools in the format of OpenAI's chat
 * API. Fields that are objects are read, too.
 *
 *   system                one system message at the start
 *   user: tool_result     a tool message each, before the rest of that user's message
 *   assistant: thinking   reasoning_content; redacted_thinking cannot be read and is left out
 *   assistant: tool_use   a call; its arguments are the JSON text of its input
 *
 * If a conversation ends with an assistant message, the answer continues that message.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

bool anthropic_reader_read(struct api_reader *reader, struct api_request *out);
