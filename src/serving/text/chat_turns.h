/* SPDX-License-Identifier: Apache-2.0
 * Converts the order of turns. Agents write conversations that many templates refuse, or from which
 * they silently drop messages: system messages in mid-conversation, several of them, a user who
 * speaks twice or after a tool's result. The orders that a template supports are found by rendering
 * tiny conversations (chat_probe.h). Other orders are converted to supported ones:
 *
 *   systems      those at the start become one; later ones become a user's, or all do
 *   joins        adjacent messages of one speaker become one, an empty line between their texts
 *   joins_result a user's text after a tool's result is appended to that result
 *   splits_calls several calls of a turn become turns of one call each, followed by its result
 *
 * If a template supports all turns, messages stay unchanged.
 */
#ifndef SERVING_TEXT_CHAT_TURNS_H
#define SERVING_TEXT_CHAT_TURNS_H

#include "base/tree.h"

enum chat_systems {
    CHAT_SYSTEMS_ANYWHERE, /* the template takes system messages at any place */
    CHAT_SYSTEMS_IN_FRONT, /* one, before all else */
    CHAT_SYSTEMS_NOWHERE
};

struct chat_turns { /* what a template takes; zeros: all that is sent */
    enum chat_systems systems;
    bool joins_users, joins_assistants;
    bool joins_result;
    bool splits_calls;
};

/* *out: an array of messages like `messages`, which share what has not changed. False: no memory. */
bool chat_turns_fold(const struct chat_turns *turns, const struct tree *messages,
                     struct arena *arena, const struct tree **out);

#endif
