/* SPDX-License-Identifier: Apache-2.0
 * Fields shared by OpenAI's chats and completions that depend on each other.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

/* Reads max_tokens, max_completion_tokens and best_of. Called after the log probabilities are
 * read. */
bool openai_fields_read(struct api_reader *reader, struct api_request *out);
