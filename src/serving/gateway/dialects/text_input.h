/* SPDX-License-Identifier: Apache-2.0
 * The input of a tool that takes one text (OpenAI's custom tools). The model writes it as a
 * function's arguments, {"input": "..."}; the client gets the text. Arguments that were cut yield
 * the text so far. Arguments in another format are the input themselves.
 */
#pragma once

#include "serving/gateway/api/answer_text.h"

/* Writes it into the inside of a JSON string. Never writes more bytes than the arguments take
 * there. */
void text_input_write(const struct answer_text *arguments, struct json_writer *writer);
