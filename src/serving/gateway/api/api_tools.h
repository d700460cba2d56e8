/* SPDX-License-Identifier: Apache-2.0
 * The tools of a request, in the format of OpenAI's chat API: their list, whether the model sees
 * them, and the constraint of its calls. A choice that forces a call makes the whole answer calls
 * with arguments that satisfy their tools' parameters. If the model may choose to call and tools
 * are "strict", or only some may be called, the answer is free up to its first call. If its content
 * is constrained as well (api_constraint.h), it is either that content or calls.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

struct api_tool_choice {
    bool none;               /* ignore all tools */
    bool forced;             /* at least one call */
    bool single;             /* at most one call */
    bool limited;            /* only those in `named` may be called */
    bool named[LIMIT_TOOLS]; /* by index of the tool */
};

/* An array of functions with names and parameters. */
bool api_tools_check(struct api_reader *reader, const struct tree *tools);

/* Allows only the tool of this name. `place`: the path of the name, for errors. */
bool api_tools_name(struct api_reader *reader, const char *place, const struct tree *tools,
                    const struct tree *name, struct api_tool_choice *choice);

/* Applies the checked tools and choice. Called after all that constrains content. Tools that may
 * not be called are dropped. */
bool api_tools_give(struct api_reader *reader, const struct tree *tools,
                    const struct api_tool_choice *choice, struct api_request *out);

/* Checks and applies these tools (NULL: none) by the body's 'tool_choice' in OpenAI's format and
 * its 'parallel_tool_calls'. */
bool api_tools_read(struct api_reader *reader, const struct tree *tools, struct api_request *out);
