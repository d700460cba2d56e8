/* SPDX-License-Identifier: Apache-2.0
 * Fields that OpenAI's chats and completions share and that depend on each other.
 */
#ifndef SERVING_GATEWAY_DIALECTS_OPENAI_FIELDS_H
#define SERVING_GATEWAY_DIALECTS_OPENAI_FIELDS_H

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

/* max_tokens, max_completion_tokens, best_of; after the log probabilities are known. */
bool openai_fields_read(struct api_reader *reader, struct api_request *out);

#endif
