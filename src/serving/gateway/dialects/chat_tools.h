/* SPDX-License-Identifier: Apache-2.0
 * Custom tools in chats: {"type": "custom", "custom": {"name", "description", "format"}}. To the model
 * they are functions of one text (text_tool.h), and so are its earlier calls of them.
 */
#ifndef SERVING_GATEWAY_DIALECTS_CHAT_TOOLS_H
#define SERVING_GATEWAY_DIALECTS_CHAT_TOOLS_H

#include "serving/gateway/api/api_request.h"

/* 'tools', 'tool_choice' and 'parallel_tool_calls'. */
bool chat_tools_read(struct api_reader *reader, struct api_request *out);

/* The messages, with calls of functions in place of calls of custom tools; what is wrong with them
 * api_messages_check says. */
bool chat_tools_messages(struct api_reader *reader, const struct tree *messages,
                         const struct tree **out);

#endif
