/* SPDX-License-Identifier: Apache-2.0
 * Checks a conversation in the format of OpenAI's chat API: each message's role, content, calls and
 * parts have the types that templates and renderers rely on.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"

/* An array of at least one message. */
bool api_messages_check(struct api_reader *reader, const struct tree *messages);

/* Takes checked messages. *out: the last message is marked as a "prefix" (DeepSeek), which the
 * answer continues. */
bool api_messages_continue(struct api_reader *reader, const struct tree *messages, bool *out);

/* Checks that the last message can be continued, as `place` asks. */
bool api_messages_check_last(struct api_reader *reader, const struct tree *messages,
                             const char *place);
