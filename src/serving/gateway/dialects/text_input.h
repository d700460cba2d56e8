/* SPDX-License-Identifier: Apache-2.0
 * Decodes the input of a tool that takes one text (OpenAI's custom tools). The model writes it as a
 * function's arguments, {"input": "..."}, and the client gets the text. Arguments that were cut
 * give the text so far. Arguments in any other format are themselves the input.
 */
#pragma once

#include "serving/gateway/api/answer_text.h"

/* Writes the input, escaped for a JSON string. It takes no more bytes than the escaped
 * arguments. */
void text_input_write(const struct answer_text *arguments, struct json_writer *writer);
