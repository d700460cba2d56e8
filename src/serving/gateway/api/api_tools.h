/* SPDX-License-Identifier: Apache-2.0
 * The tools of a request, in the shape of OpenAI's chat API: which there are, and whether the model
 * is to know of them.
 */
#ifndef SERVING_GATEWAY_API_API_TOOLS_H
#define SERVING_GATEWAY_API_API_TOOLS_H

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

/* An array of functions with names, parameters and without "strict". */
bool api_tools_check(struct api_reader *reader, const struct tree *tools);

/* 'tools', 'tool_choice' and 'parallel_tool_calls' of the body. Tools that are not to be called are
 * as if they were not given. */
bool api_tools_read(struct api_reader *reader, struct api_request *out);

/* The model is to know of these, which have been checked. */
bool api_tools_give(struct api_reader *reader, const struct tree *tools, struct api_request *out);

#endif
