/* SPDX-License-Identifier: Apache-2.0
 * Fields that enable or disable thinking: DeepSeek's, Qwen's, OpenAI's and variables of chat
 * templates. A mode that the model's chat template does not support is refused, unless it comes
 * from a reasoning effort, which is only a hint. Two fields that contradict each other are refused.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

/* Sets the mode that `field` asks for. */
bool api_thinking_ask(struct api_reader *reader, const char *field, enum chat_thinking thinking,
                      struct api_request *out);

/* Sets an effort from "none" to "max", from `field`. */
bool api_thinking_ask_effort(struct api_reader *reader, const char *field, struct bytes effort,
                             struct api_request *out);

/* Readers for rows of the table of fields: "thinking", "enable_thinking", "chat_template_kwargs",
 * and "reasoning_effort", which must be last. */
bool api_thinking_read(struct api_reader *reader, const struct tree *value,
                       struct api_request *out);
bool api_thinking_read_flag(struct api_reader *reader, const struct tree *value,
                            struct api_request *out);
bool api_thinking_read_variables(struct api_reader *reader, const struct tree *value,
                                 struct api_request *out);
bool api_thinking_read_effort(struct api_reader *reader, const struct tree *value,
                              struct api_request *out);
