/* SPDX-License-Identifier: Apache-2.0
 * An assistant's earlier reasoning under the names of other servers, which clients send back:
 * vLLM's and OpenRouter's "reasoning", OpenRouter's "reasoning_details", LiteLLM's
 * "thinking_blocks". Templates use "reasoning_content", DeepSeek's name, which has priority.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"

/* *out: the messages, with "reasoning_content" in those of assistants that have reasoning. Refuses
 * values that are not text. Leaves out content that other servers have sealed. */
bool chat_thoughts_messages(struct api_reader *reader, const struct tree *messages,
                            const struct tree **out);
