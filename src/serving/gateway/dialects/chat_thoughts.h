/* SPDX-License-Identifier: Apache-2.0
 * An assistant's earlier thoughts under the names that other servers give them, which they bring back
 * under: vLLM's and OpenRouter's "reasoning", OpenRouter's "reasoning_details", LiteLLM's
 * "thinking_blocks". Templates know them as "reasoning_content", DeepSeek's name, which wins.
 */
#ifndef SERVING_GATEWAY_DIALECTS_CHAT_THOUGHTS_H
#define SERVING_GATEWAY_DIALECTS_CHAT_THOUGHTS_H

#include "serving/gateway/api/api_reader.h"

/* *out: the messages, those of assistants with "reasoning_content" where they have thoughts. What is
 * no text of thoughts is refused; what others have sealed is left out. */
bool chat_thoughts_messages(struct api_reader *reader, const struct tree *messages,
                            const struct tree **out);

#endif
