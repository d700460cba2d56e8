/* SPDX-License-Identifier: Apache-2.0
 * Writes answers of OpenAI's Responses API. A response's output is a list of items (reasoning,
 * message, function_call). It is written whole, or as numbered events. An item's last events repeat
 * its text and log probabilities. The very last event repeats the whole response. Each message has
 * the log probabilities of its own tokens. There is no [DONE].
 */
#pragma once

#include "serving/gateway/api/dialect.h"

#define RESPONSES_WORDS_KEEP_ALIVE "\n"               /* ends the comment */
#define RESPONSES_WORDS_FRAME_BYTES ((size_t)6 << 10) /* includes the model's name, escaped */
#define RESPONSES_WORDS_REPEATS                                                                    \
    4 /* a text is repeated by its last event and those of its part, item and response */
#define RESPONSES_WORDS_REPORTS 2 /* by response.created and response.in_progress */

void responses_words_whole(struct json_writer *writer, const struct api_answer *answer,
                           const struct api_choice *choices, size_t choice_count,
                           const struct api_usage *usage);
void responses_words_event(struct json_writer *writer, const struct api_answer *answer,
                           struct dialect_place *place, const struct api_event *event);
