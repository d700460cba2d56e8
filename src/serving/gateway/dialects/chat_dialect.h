/* SPDX-License-Identifier: Apache-2.0
 * OpenAI's chat completions, with DeepSeek's fields: the reasoning is told apart in
 * message.reasoning_content; in a stream's deltas `content` is null while reasoning comes and
 * `reasoning_content` is null while the answer comes. Calls are message.tool_calls.
 */
#ifndef SERVING_GATEWAY_DIALECTS_CHAT_DIALECT_H
#define SERVING_GATEWAY_DIALECTS_CHAT_DIALECT_H

#include "serving/gateway/api/dialect.h"

extern const struct dialect chat_dialect;

#endif
