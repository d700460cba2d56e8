/* SPDX-License-Identifier: Apache-2.0
 * The tools of a request in the format of OpenAI's chat API, the tool choice, and the constraint of
 * the model's tool calls. If the choice forces a call, the whole answer is constrained to calls
 * with arguments that match the tools' parameters. If calls are optional, and tools are "strict" or
 * only some may be called, the answer is unconstrained up to its first call. If content is
 * constrained as well (api_constraint.h), the answer is either that content or calls.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

struct api_tool_choice {
    bool none;               /* ignore all tools */
    bool forced;             /* at least one call is required */
    bool single;             /* at most one call is allowed */
    bool limited;            /* only the tools in `named` may be called */
    bool named[LIMIT_TOOLS]; /* indexed by the tool's position */
};

/* Checks that `tools` is an array of functions with names and parameters. */
bool api_tools_check(struct api_reader *reader, const struct tree *tools);

/* Allows only the tool of this name. `place`: the path of the name, for errors. */
bool api_tools_name(struct api_reader *reader, const char *place, const struct tree *tools,
                    const struct tree *name, struct api_tool_choice *choice);

/* Applies the checked tools and choice. Call it after all fields that constrain content were read.
 * Tools that may not be called are dropped. */
bool api_tools_give(struct api_reader *reader, const struct tree *tools,
                    const struct api_tool_choice *choice, struct api_request *out);

/* Checks and applies these tools (NULL: none), with the body's 'tool_choice' in OpenAI's format and
 * its 'parallel_tool_calls'. */
bool api_tools_read(struct api_reader *reader, const struct tree *tools, struct api_request *out);
