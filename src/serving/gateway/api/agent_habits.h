/* SPDX-License-Identifier: Apache-2.0
 * A short table of what agents are known to put into requests and no model reads. A prompt is
 * found in the cache only up to the first token that differs, so a line at its beginning that
 * changes with each request keeps all of it from being found. Such text is left out of the inner
 * request. Text that a model reads, such as a date, is never changed.
 *
 *   BILLING_LINE  Claude Code's first system text begins with (the values vary):
 *                 x-anthropic-billing-header: cc_version=2.1.120.cf9; cc_entrypoint=cli; cch=543cf;
 *                 It is left out only at the start of a first system message, and only as a whole
 *                 line of such values.
 *   CACHE_MARKS   "cache_control" in messages, their parts, calls and tools of chats, which a
 *                 template would print where it prints a tool or a message as JSON
 *   SESSION_ID    Claude Code's metadata.user_id is a JSON object that names the device, the
 *                 account and the session. Prompts are found by their own user's requests alone:
 *                 without the session, a user's next session finds what the last one left.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

enum agent_habit {
    AGENT_HABIT_BILLING_LINE,
    AGENT_HABIT_CACHE_MARKS,
    AGENT_HABIT_SESSION_ID,
    AGENT_HABIT_COUNT
};

/* The name in receipts. */
const char *agent_habits_name(enum agent_habit habit);

/* Leaves out what the table says of a chat that was read, notes it in out->left_out, and warns the
 * client. */
bool agent_habits_apply(struct api_reader *reader, struct api_request *out);
