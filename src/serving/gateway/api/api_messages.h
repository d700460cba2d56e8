/* SPDX-License-Identifier: Apache-2.0
 * Validates a conversation in the format of OpenAI's chat API. Roles, contents, parts and tool
 * calls must have the types on which templates and renderers rely.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"

/* Checks that the messages are a valid array of at least one. */
bool api_messages_check(struct api_reader *reader, const struct tree *messages);

/* Takes checked messages. *out is true if the last one is marked as a "prefix" (DeepSeek), which
 * the answer continues. */
bool api_messages_continue(struct api_reader *reader, const struct tree *messages, bool *out);

/* Checks that the answer can continue the last message. `place` is the field that asks for it. */
bool api_messages_check_last(struct api_reader *reader, const struct tree *messages,
                             const char *place);
