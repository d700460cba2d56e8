/* SPDX-License-Identifier: Apache-2.0
 * Custom tools in chats: {"type": "custom", "custom": {"name", "description", "format"}}. The model
 * sees them, and its earlier calls of them, as functions of one text (text_tool.h).
 */
#pragma once

#include "serving/gateway/api/api_request.h"

/* Reads 'tools', 'tool_choice' and 'parallel_tool_calls'. */
bool chat_tools_read(struct api_reader *reader, struct api_request *out);

/* Converts calls of custom tools in the messages to function calls. api_messages_check reports
 * their errors. */
bool chat_tools_messages(struct api_reader *reader, const struct tree *messages,
                         const struct tree **out);
