/* SPDX-License-Identifier: Apache-2.0
 * Shows a tool that takes one text (OpenAI's custom tools) to the model as a function with a single
 * argument, the string "input". text_input.h converts the model's arguments back to the text.
 */
#pragma once

#include "serving/gateway/api/api_request.h"
#include "serving/gateway/dialects/chat_builder.h"

/* Adds the function `name` with the "description" and "format" of `tool`. A grammar is appended to
 * the description, and a warning says that it is not enforced. */
bool text_tool_add(struct api_reader *reader, struct chat_builder *builder, struct api_request *out,
                   const struct tree *tool, const struct tree *name, const char *place);

/* Returns the arguments of an earlier call as the model would have written them; NULL: no
 * memory. */
const struct tree *text_tool_arguments(struct api_reader *reader, const struct tree *input);
