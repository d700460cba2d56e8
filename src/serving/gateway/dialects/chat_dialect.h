/* SPDX-License-Identifier: Apache-2.0
 * OpenAI's chat completions API, with DeepSeek's fields. message.reasoning_content has the
 * reasoning. In a stream's deltas `content` is null during the reasoning, and `reasoning_content`
 * is null during the answer. Calls are in message.tool_calls.
 */
#pragma once

#include "serving/gateway/api/dialect.h"

extern const struct dialect chat_dialect;
