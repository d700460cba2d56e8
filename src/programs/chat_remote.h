/* SPDX-License-Identifier: Apache-2.0
 * Answers of `chat --url` from a running server: a stream of POST /v1/chat/completions. The key of
 * an account comes from the environment variable FATHOM_API_KEY.
 */
#pragma once

#include "programs/chat_parts.h"

struct chat_remote;

/* Connects to the server and asks for its model's name, unless --model has one. */
enum status chat_remote_open(const struct chat_values *values, struct chat_remote **remote_out,
                             struct error *error) MUST_USE;
void chat_remote_close(struct chat_remote *remote);

/* Answers a conversation. If the server refuses or the connection breaks, the error has its words,
 * safe to print, and the next question may be asked. */
enum status chat_remote_answer(struct chat_remote *remote, const struct chat_values *values,
                               const struct chat_conversation *conversation,
                               const struct chat_sink *sink, enum chat_end *end_out,
                               struct error *error) MUST_USE;
