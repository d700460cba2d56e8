/* SPDX-License-Identifier: Apache-2.0
 * The tools of a body of OpenAI's Responses API, as functions for the model:
 *
 *   function      a function
 *   custom        a function whose one argument, the string `input`, is what the tool takes; a
 *                 grammar of its format is told to the model and not held, which the client is told
 *   namespace     each of its functions and custom tools, under the name NAMESPACE__NAME
 *   web_search, image_generation
 *                 left out: this server runs no tools itself, and a model may do without them. The
 *                 client is told in the warning, and the answer's `tools` are without them
 *
 * All others are refused. What calls are told as is said by aliases (serving/gateway/api/tool_alias.h).
 */
#ifndef SERVING_GATEWAY_DIALECTS_RESPONSES_TOOLS_H
#define SERVING_GATEWAY_DIALECTS_RESPONSES_TOOLS_H

#include "serving/gateway/api/api_request.h"
#include "serving/gateway/dialects/chat_builder.h"

/* 'tools', 'tool_choice' and 'parallel_tool_calls'. *given_out: an array of those tools of the body
 * that are given to the model; NULL: there are none. */
bool responses_tools_read(struct api_reader *reader, struct chat_builder *builder,
                          struct api_request *out, const struct tree **given_out);

/* The name by which the model knows the tool of an earlier call, or NULL: it has none. */
const struct tree *responses_tools_name(struct api_reader *reader, const struct tree *call);

#endif
