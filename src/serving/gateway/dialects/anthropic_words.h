/* SPDX-License-Identifier: Apache-2.0
 * Writes answers of Anthropic's Messages API. A message has content blocks (thinking, text,
 * tool_use). It is written whole, or as events that open, fill and close one block after the other.
 *
 * The input of a call is an object. If the model's arguments are not an object, because the answer
 * was cut or the model erred, a whole answer has {"INVALID_JSON": their text} instead. A stream has
 * the text as the model wrote it.
 */
#pragma once

#include "serving/gateway/api/dialect.h"

#define ANTHROPIC_WORDS_KEEP_ALIVE "event: ping\ndata: {\"type\":\"ping\"}\n\n"
#define ANTHROPIC_WORDS_FRAME_BYTES ((size_t)4 << 10) /* includes the model's name, escaped */

void anthropic_words_whole(struct json_writer *writer, const struct api_answer *answer,
                           const struct api_choice *choices, size_t choice_count,
                           const struct api_usage *usage);
void anthropic_words_event(struct json_writer *writer, const struct api_answer *answer,
                           struct dialect_place *place, const struct api_event *event);
void anthropic_words_error(struct json_writer *writer, const struct api_error *error);

/* Writes "prompt is too long: N tokens > M maximum", by which clients of Anthropic's API recognize
 * that they must shorten the conversation. */
void anthropic_words_length(struct api_error *error, const struct api_length *length);

/* Write the models as a list of one page, or one model. Release dates are unknown, so they are the
 * epoch. */
void anthropic_words_models(struct json_writer *writer, const struct api_model *models,
                            size_t count, uint64_t tokens_max);
void anthropic_words_model(struct json_writer *writer, struct bytes name, uint64_t tokens_max);

/* Writes {"input_tokens":7}. */
void anthropic_words_count(struct json_writer *writer, uint32_t prompt_tokens);
