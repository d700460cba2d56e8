/* SPDX-License-Identifier: Apache-2.0
 * The input of a tool that takes one text (OpenAI's custom tools). The model writes it as a
 * function's arguments, {"input": "..."}; the client gets the text. Arguments that were cut have
 * what came of the text; those of another shape are the input themselves.
 */
#ifndef SERVING_GATEWAY_DIALECTS_TEXT_INPUT_H
#define SERVING_GATEWAY_DIALECTS_TEXT_INPUT_H

#include "serving/gateway/api/answer_text.h"

/* Into the inside of a JSON string; never more bytes than the arguments take there. */
void text_input_write(const struct answer_text *arguments, struct json_writer *writer);

#endif
