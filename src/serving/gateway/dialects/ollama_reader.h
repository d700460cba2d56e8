/* SPDX-License-Identifier: Apache-2.0
 * Reads bodies of Ollama's API into the inner request. Calls and results of older clients have no
 * ids: calls are numbered through the conversation, and a result answers the first call before it
 * that has no result yet, of its tool's name if it has one.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

bool ollama_reader_chat(struct api_reader *reader, struct api_request *out);
bool ollama_reader_generate(struct api_reader *reader, struct api_request *out);
