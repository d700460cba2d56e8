/* SPDX-License-Identifier: Apache-2.0
 * Reads the parts of an OpenAI Responses body that the table of fields leaves to the dialect: the
 * items of its input, which become messages in the format of OpenAI's chat API, its tools, and the
 * fields that are objects. Nothing is stored, so the input must include items of earlier answers.
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
 * Also writes the fields of the request that every answer repeats (struct api_answer's `reported`).
 */
#pragma once

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

/* Instructions and tools of more bytes than this, as JSON, are not repeated. */
#define RESPONSES_READER_REPORTED_BYTES_MAX ((size_t)256 << 10)

/* Prefix of a reasoning's text in "encrypted_content". It is not secret: the same answer contains
 * the text. Clients that keep no reasoning_text send back only this. */
#define RESPONSES_READER_SEAL "fathom.reasoning.1:"

bool responses_reader_read(struct api_reader *reader, struct api_request *out);
