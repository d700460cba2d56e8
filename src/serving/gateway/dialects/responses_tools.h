/* SPDX-License-Identifier: Apache-2.0
 * Converts the tools of an OpenAI Responses body to functions for the model:
 *
 *   function      a function
 *   custom        a function with one argument, the string `input`, which is the tool's input. A
 *                 grammar of its format is shown to the model but not enforced; a warning says so
 *   namespace     each of its functions and custom tools, under the name NAMESPACE__NAME
 *   web_search, image_generation
 *                 left out: this server runs no tools itself, and a model may do without them. A
 *                 warning says so, and the answer's `tools` are without them
 *
 * All others are refused. Answers use the client's names for tools
 * (serving/gateway/api/tool_alias.h).
 */
#pragma once

#include "serving/gateway/api/api_request.h"
#include "serving/gateway/dialects/chat_builder.h"

/* Reads 'tools', 'tool_choice' and 'parallel_tool_calls'. *given_out: array of the body's tools
 * that the model sees; NULL: none. */
bool responses_tools_read(struct api_reader *reader, struct chat_builder *builder,
                          struct api_request *out, const struct tree **given_out);

/* Returns the model's name for the tool of an earlier call; NULL: it has none. */
const struct tree *responses_tools_name(struct api_reader *reader, const struct tree *call);
