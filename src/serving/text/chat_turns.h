/* SPDX-License-Identifier: Apache-2.0
 * Converts the order of turns. Many templates reject some conversations of agents, or silently drop
 * messages of them: several system messages, or one in mid-conversation, two user messages in a
 * row, or a user message after a tool's result. Rendering tiny conversations (chat_probe.h) shows
 * which orders a template supports. Other orders are converted to supported ones:
 *
 *   systems      system messages at the start are merged into one; later ones, or all of them,
 *                become user messages
 *   joins        adjacent messages of one role are merged, with an empty line between their texts
 *   joins_result a user's text after a tool's result is appended to that result
 *   splits_calls several calls of a turn become turns of one call each, followed by its result
 *
 * If a template supports all turns, messages stay unchanged.
 */
#pragma once

#include "base/tree.h"

enum chat_systems {
    CHAT_SYSTEMS_ANYWHERE, /* system messages are supported at any position */
    CHAT_SYSTEMS_IN_FRONT, /* one system message is supported, before all others */
    CHAT_SYSTEMS_NOWHERE
};

struct chat_turns { /* the conversions for a template; all zeros: none is needed */
    enum chat_systems systems;
    bool joins_users, joins_assistants;
    bool joins_result;
    bool splits_calls;
};

/* Sets *out to the converted array, which shares unchanged messages with `messages`. Returns false
 * if memory is out. */
bool chat_turns_fold(const struct chat_turns *turns, const struct tree *messages,
                     struct arena *arena, const struct tree **out);
