/* SPDX-License-Identifier: Apache-2.0
 * A tool that takes one text (OpenAI's custom tools), as a function that the model is told of: its
 * only argument is the string "input". What the model writes becomes the text again in text_input.h.
 */
#ifndef SERVING_GATEWAY_DIALECTS_TEXT_TOOL_H
#define SERVING_GATEWAY_DIALECTS_TEXT_TOOL_H

#include "serving/gateway/api/api_request.h"
#include "serving/gateway/dialects/chat_builder.h"

/* One more tool: the function `name` with what `tool` has as "description" and "format". A grammar
 * stands behind the description, and the warning says that it is not held. */
bool text_tool_add(struct api_reader *reader, struct chat_builder *builder, struct api_request *out,
                   const struct tree *tool, const struct tree *name, const char *place);

/* The arguments of an earlier call, as the model would have written them; NULL: no memory. */
const struct tree *text_tool_arguments(struct api_reader *reader, const struct tree *input);

#endif
