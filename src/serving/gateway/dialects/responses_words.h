/* SPDX-License-Identifier: Apache-2.0
 * Writes answers of OpenAI's Responses API: a response with a list of items as output (reasoning,
 * message, function_call), whole or as numbered events. An item's last events repeat its text and
 * log probabilities. The last event of all repeats the whole response, as a whole answer has it.
 * Each message has the log probabilities of its own tokens. There is no [DONE].
 */
#pragma once

#include "serving/gateway/api/dialect.h"

#define RESPONSES_WORDS_KEEP_ALIVE ": keep-alive\n\n"
#define RESPONSES_WORDS_FRAME_BYTES ((size_t)6 << 10) /* the model's name is escaped */
#define RESPONSES_WORDS_REPEATS                                                                    \
    4 /* of a text: its last event, and those of its part, its item and the response */
#define RESPONSES_WORDS_REPORTS 2 /* response.created and response.in_progress */

void responses_words_whole(struct json_writer *writer, const struct api_answer *answer,
                           const struct api_choice *choices, size_t choice_count,
                           const struct api_usage *usage);
void responses_words_event(struct json_writer *writer, const struct api_answer *answer,
                           struct dialect_place *place, const struct api_event *event);
