/* SPDX-License-Identifier: Apache-2.0
 * Checking a conversation in the shape of OpenAI's chat API: each message's role, content, calls
 * and parts are of the types that templates and renderers may rely on.
 */
#ifndef SERVING_GATEWAY_API_API_MESSAGES_H
#define SERVING_GATEWAY_API_API_MESSAGES_H

#include "serving/gateway/api/api_reader.h"

/* An array of at least one message. */
bool api_messages_check(struct api_reader *reader, const struct tree *messages);

/* What has been checked. *out: the last message is marked as a "prefix" (DeepSeek), which the
 * answer continues. */
bool api_messages_continue(struct api_reader *reader, const struct tree *messages, bool *out);

/* The last message can be continued, as `place` asks. */
bool api_messages_check_last(struct api_reader *reader, const struct tree *messages,
                             const char *place);

#endif
