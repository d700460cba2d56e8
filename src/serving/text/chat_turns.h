/* SPDX-License-Identifier: Apache-2.0
 * Whose turn follows whose. Agents write conversations that many templates refuse, or of which they
 * leave messages out in silence: system messages in mid-conversation, several of them, a user who
 * speaks twice or behind a tool's result. What a template takes is found by rendering tiny
 * conversations (chat_probe.h); what it does not take is said in turns that it does:
 *
 *   systems      those in front become one; later ones are a user's, or all are
 *   joins        neighbours of one speaker become one message, an empty line between their texts
 *   joins_result what a user says behind a tool's result stands at that result's end
 *   splits_calls several calls of a turn are turns of one call each, its result behind it
 *
 * Where a template takes all turns, messages stay as they are.
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
