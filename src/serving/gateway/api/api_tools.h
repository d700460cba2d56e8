/* SPDX-License-Identifier: Apache-2.0
 * The tools of a request, in the shape of OpenAI's chat API: which there are, whether the model is
 * to know of them, and what binds its calls. A choice that forces a call makes the whole answer
 * calls whose arguments fulfil their tools' parameters. Where a call is the model's own choice and
 * tools are "strict", or not all may be called, the answer is free up to its first call; where its
 * content is bound, too (api_constraint.h), it is either that content or calls.
 */
#ifndef SERVING_GATEWAY_API_API_TOOLS_H
#define SERVING_GATEWAY_API_API_TOOLS_H

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

struct api_tool_choice {
    bool none;               /* as if there were no tools */
    bool forced;             /* one call at least */
    bool single;             /* and no more than one */
    bool limited;            /* those of `named` alone may be called */
    bool named[LIMIT_TOOLS]; /* by their places among the tools */
};

/* An array of functions with names and parameters. */
bool api_tools_check(struct api_reader *reader, const struct tree *tools);

/* The tool of this name alone may be called. `place`: of the name, for errors. */
bool api_tools_name(struct api_reader *reader, const char *place, const struct tree *tools,
                    const struct tree *name, struct api_tool_choice *choice);

/* What has been checked and chosen; behind all that binds content. Tools that are not to be called
 * are as if they were not given. */
bool api_tools_give(struct api_reader *reader, const struct tree *tools,
                    const struct api_tool_choice *choice, struct api_request *out);

/* These tools (NULL: none), checked and given, as the body's 'tool_choice' in OpenAI's words and its
 * 'parallel_tool_calls' want. */
bool api_tools_read(struct api_reader *reader, const struct tree *tools, struct api_request *out);

#endif
