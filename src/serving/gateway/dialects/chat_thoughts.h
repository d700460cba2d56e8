/* SPDX-License-Identifier: Apache-2.0
 * Earlier reasoning of the assistant that clients send back under the names of other servers:
 * vLLM's and OpenRouter's "reasoning", OpenRouter's "reasoning_details", LiteLLM's
 * "thinking_blocks". Chat templates use DeepSeek's name, "reasoning_content", which has priority.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"

/* *out: the messages, where assistant messages with reasoning have "reasoning_content". Refuses
 * values that are not text. Leaves out reasoning that other servers have encrypted. */
bool chat_thoughts_messages(struct api_reader *reader, const struct tree *messages,
                            const struct tree **out);
