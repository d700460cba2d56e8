/* SPDX-License-Identifier: Apache-2.0
 * The messages of a chat in memory, and as a JSON file: {"messages": [{"role": "user", "content":
 * "..."}, ...]}, the shape that the API takes.
 */
#pragma once

#include "base/json_writer.h"
#include "host/process/model_prompt.h"

#define CONVERSATION_MESSAGES_MAX 1024
#define CONVERSATION_FILE_BYTES_MAX ((size_t)64 << 20)

struct chat_conversation {
    struct chat_turn messages[CONVERSATION_MESSAGES_MAX]; /* [count] contents on the heap */
    size_t count;
};

/* Adds a message; bytes that are not UTF-8 become U+FFFD. `role` is a literal. STATUS_FULL: there
 * are CONVERSATION_MESSAGES_MAX. */
enum status conversation_add(struct chat_conversation *conversation, const char *role,
                             struct bytes content, struct error *error) MUST_USE;
void conversation_drop_last(struct chat_conversation *conversation);
void conversation_clear(struct chat_conversation *conversation);

/* Writes the member "messages", as files and requests have it. */
void conversation_write(struct json_writer *writer, const struct chat_conversation *conversation);

/* Writes a file that its owner alone may read. Unless `replaces`, an existing file stays, and the
 * error names it. */
enum status conversation_save(const struct chat_conversation *conversation, const char *path,
                              bool replaces, struct error *error) MUST_USE;
/* Replaces the messages by those of a file. Changes nothing if it fails. */
enum status conversation_load(struct chat_conversation *conversation, const char *path,
                              struct error *error) MUST_USE;
