/* SPDX-License-Identifier: Apache-2.0
 * Builds the inner request's messages and tools (trees in the format of OpenAI's chat API) from
 * those of another dialect. Consecutive reasoning, text and calls of the assistant become one
 * message. Values of the body that have the right format are shared, not copied.
 *
 * After memory has run out nothing more is built, and chat_builder_end returns false.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"

struct chat_builder {
    struct arena *arena;
    struct tree *messages, *tools;
    struct tree *thoughts, *parts, *calls; /* of the open assistant's turn; NULL: none yet */
    bool in_turn, failed;
};

struct chat_builder chat_builder_open(struct arena *arena);

/* A part of the type "text" with this string, for content. */
struct tree *chat_builder_part(struct chat_builder *builder, const struct tree *text);

/* Adds a message with content: a string or an array of text parts. A single part becomes its
 * string. Ends the assistant's turn. */
void chat_builder_message(struct chat_builder *builder, const char *role,
                          const struct tree *content);
void chat_builder_result(struct chat_builder *builder, const struct tree *call_id,
                         const struct tree *content);

/* Adds to the assistant's turn, and begins it if none is open. */
void chat_builder_say(struct chat_builder *builder, const struct tree *text);
void chat_builder_reason(struct chat_builder *builder, const struct tree *text);
void chat_builder_call(struct chat_builder *builder, const struct tree *id, const struct tree *name,
                       const struct tree *arguments);
void chat_builder_end_turn(struct chat_builder *builder);

/* Adds a tool that api_tools_check still has to check. The last three may be NULL; a tool is not
 * strict by default. */
void chat_builder_tool(struct chat_builder *builder, const struct tree *name,
                       const struct tree *description, const struct tree *parameters,
                       const struct tree *strict);

/* Joins the texts of an array, a line each; NULL: no memory. */
const struct tree *chat_builder_join(struct arena *arena, const struct tree *texts);

/* Copies the message with this value under this name; NULL: no memory. */
const struct tree *chat_builder_with(struct arena *arena, const struct tree *message,
                                     const char *name, const struct tree *value);

/* Ends the turn. False: memory ran out. */
bool chat_builder_end(struct chat_builder *builder);
