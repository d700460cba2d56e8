/* SPDX-License-Identifier: Apache-2.0
 * Reads the parts of an OpenAI Responses body that the table of fields leaves to the dialect: its
 * input, its tools, and fields that are objects. The input's items are converted to messages in the
 * format of OpenAI's chat API. Nothing is stored, so the input must include the items of earlier
 * answers.
 *
 *   instructions           one system message at the start
 *   message                a message; consecutive items of an assistant are one
 *   reasoning              reasoning_content of the assistant's message: its text, else what this
 *                          server sealed, else its summary
 *   function_call, custom_tool_call
 *                          a call of the assistant's message
 *   function_call_output, custom_tool_call_output
 *                          a tool message
 *
 * The reader also writes the fields of the request that every answer repeats (struct api_answer's
 * `reported`).
 */
#pragma once

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

/* Answers do not repeat instructions and tools that take more bytes than this as JSON. */
#define RESPONSES_READER_REPORTED_BYTES_MAX ((size_t)256 << 10)

/* Prefix of the reasoning text in "encrypted_content". The text is not secret, because the same
 * answer contains it. Clients that keep no reasoning_text send back only this. */
#define RESPONSES_READER_SEAL "fathom.reasoning.1:"

bool responses_reader_read(struct api_reader *reader, struct api_request *out);
