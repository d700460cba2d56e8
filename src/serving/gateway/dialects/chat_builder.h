/* SPDX-License-Identifier: Apache-2.0
 * Builds the inner request's messages and tools, as trees in the format of OpenAI's chat API, from
 * those of another dialect. Consecutive reasoning, text and calls of the assistant become one
 * message. Values of the body that have the right format are shared, not copied.
 *
 * Once memory has run out, nothing more is built, and chat_builder_end returns false.
 */
#pragma once

#include "serving/gateway/api/api_reader.h"

struct chat_builder {
    struct arena *arena;
    struct tree *messages, *tools;
    struct tree *thoughts, *parts, *calls; /* parts of the open assistant turn; NULL: none yet */
    bool in_turn, failed;
};

struct chat_builder chat_builder_open(struct arena *arena);

/* Makes a content part of type "text" with this string. */
struct tree *chat_builder_part(struct chat_builder *builder, const struct tree *text);

/* Add a message, or a tool's result. `content` is a string or an array of text parts. A single part
 * becomes its string. Both end the assistant's turn. */
void chat_builder_message(struct chat_builder *builder, const char *role,
                          const struct tree *content);
void chat_builder_result(struct chat_builder *builder, const struct tree *call_id,
                         const struct tree *content);

/* Each adds to the assistant's turn, and begins it if none is open. */
void chat_builder_say(struct chat_builder *builder, const struct tree *text);
void chat_builder_reason(struct chat_builder *builder, const struct tree *text);
void chat_builder_call(struct chat_builder *builder, const struct tree *id, const struct tree *name,
                       const struct tree *arguments);
void chat_builder_end_turn(struct chat_builder *builder);

/* Adds a tool, which api_tools_check checks later. The last three may be NULL. A tool is not strict
 * by default. */
void chat_builder_tool(struct chat_builder *builder, const struct tree *name,
                       const struct tree *description, const struct tree *parameters,
                       const struct tree *strict);

/* Joins the texts of an array with newlines; NULL: no memory. */
const struct tree *chat_builder_join(struct arena *arena, const struct tree *texts);

/* Copies the message and sets the member `name` to `value`; NULL: no memory. */
const struct tree *chat_builder_with(struct arena *arena, const struct tree *message,
                                     const char *name, const struct tree *value);

/* Ends the open turn. False: memory ran out. */
bool chat_builder_end(struct chat_builder *builder);
