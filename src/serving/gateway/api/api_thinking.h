/* SPDX-License-Identifier: Apache-2.0
 * Fields that ask a model to think, or not to: DeepSeek's, Qwen's, OpenAI's and the variables of
 * chat templates. What the model's chat template cannot do is refused, but for an effort, which is
 * a wish. Two fields that contradict each other are refused.
 */
#ifndef SERVING_GATEWAY_API_API_THINKING_H
#define SERVING_GATEWAY_API_API_THINKING_H

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

/* `field` asks for it. */
bool api_thinking_ask(struct api_reader *reader, const char *field, enum chat_thinking thinking,
                      struct api_request *out);

/* "none" to "max", given as `field`. */
bool api_thinking_ask_effort(struct api_reader *reader, const char *field, struct bytes effort,
                             struct api_request *out);

/* For rows of the table of fields: "thinking", "enable_thinking", "chat_template_kwargs",
 * "reasoning_effort", which has to come last. */
bool api_thinking_read(struct api_reader *reader, const struct tree *value,
                       struct api_request *out);
bool api_thinking_read_flag(struct api_reader *reader, const struct tree *value,
                            struct api_request *out);
bool api_thinking_read_variables(struct api_reader *reader, const struct tree *value,
                                 struct api_request *out);
bool api_thinking_read_effort(struct api_reader *reader, const struct tree *value,
                              struct api_request *out);

#endif
