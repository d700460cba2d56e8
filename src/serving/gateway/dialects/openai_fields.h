/* SPDX-License-Identifier: Apache-2.0
 * Interdependent fields that OpenAI's chats and completions share.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

/* Reads max_tokens, max_completion_tokens and best_of. Call it after the fields of log
 * probabilities were read. */
bool openai_fields_read(struct api_reader *reader, struct api_request *out);
