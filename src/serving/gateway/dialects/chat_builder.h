/* SPDX-License-Identifier: Apache-2.0
 * Builds the inner request's messages and tools (trees in the shape of OpenAI's chat API) from
 * those of another dialect. What an assistant says in a row, its reasoning, text and calls, becomes
 * one message. Values of the body are shared, not copied, where they already have the right shape.
 *
 * Once memory runs out nothing more is built, and chat_builder_end says so.
 */
#ifndef SERVING_GATEWAY_DIALECTS_CHAT_BUILDER_H
#define SERVING_GATEWAY_DIALECTS_CHAT_BUILDER_H

#include "serving/gateway/api/api_reader.h"

struct chat_builder {
    struct arena *arena;
    struct tree *messages, *tools;
    struct tree *thoughts, *parts, *calls; /* of the assistant's open turn; NULL: none yet */
    bool in_turn, failed;
};

struct chat_builder chat_builder_open(struct arena *arena);

/* A part of the type "text" with this string, for content. */
struct tree *chat_builder_part(struct chat_builder *builder, const struct tree *text);

/* One message with content: a string or an array of text parts, of which a single one becomes its
 * string. Ends the assistant's turn. */
void chat_builder_message(struct chat_builder *builder, const char *role,
                          const struct tree *content);
void chat_builder_result(struct chat_builder *builder, const struct tree *call_id,
                         const struct tree *content);

/* What the assistant's turn consists of; it begins with the first of them. */
void chat_builder_say(struct chat_builder *builder, const struct tree *text);
void chat_builder_reason(struct chat_builder *builder, const struct tree *text);
void chat_builder_call(struct chat_builder *builder, const struct tree *id, const struct tree *name,
                       const struct tree *arguments);
void chat_builder_end_turn(struct chat_builder *builder);

/* One more tool, still to be checked (api_tools_check). The latter three may be NULL; that it is not
 * strict goes without saying. */
void chat_builder_tool(struct chat_builder *builder, const struct tree *name,
                       const struct tree *description, const struct tree *parameters,
                       const struct tree *strict);

/* The texts of an array as one, a line each; NULL: no memory. */
const struct tree *chat_builder_join(struct arena *arena, const struct tree *texts);

/* A copy of the message with this value under this name; NULL: no memory. */
const struct tree *chat_builder_with(struct arena *arena, const struct tree *message,
                                     const char *name, const struct tree *value);

/* Ends the turn. False: memory ran out. */
bool chat_builder_end(struct chat_builder *builder);

#endif
