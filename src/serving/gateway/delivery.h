/* SPDX-License-Identifier: Apache-2.0
 * An answer's text on its way to the client: said piece by piece in a stream, or gathered into a
 * whole answer. What is said needs room in the outbox, of which the caller has made sure.
 */
#ifndef SERVING_GATEWAY_DELIVERY_H
#define SERVING_GATEWAY_DELIVERY_H

#include "serving/gateway/gateway_state.h"

struct delivery_text { /* what a run of tokens says: reasoning, and behind it content */
    char *text;
    size_t room, count, reasoning_count;
};

/* Empty, in the gateway's scratch memory, which is cleared. */
struct delivery_text delivery_open(struct gateway *gateway, size_t room);

/* For token_stream_push and token_stream_finish: `context` is a struct delivery_text. */
void delivery_add(void *context, enum token_stream_part part, struct bytes more);

/* What the request's token stream still holds back; nothing the second time. */
struct delivery_text delivery_flush(struct gateway *gateway, struct request *request);

#define DELIVERY_ESCAPED_PER_BYTE 6 /* a byte of text takes so many in JSON at most: \u0000 */

/* ---- in a stream ---- */

/* STREAM_BEGIN unless it has gone out, and the choice's first event: the role, or the prompt that is
 * to be echoed. Clears the scratch memory. */
void delivery_start(struct gateway *gateway, struct request *request);
size_t delivery_start_bytes_max(const struct request *request);

/* One event for the reasoning, one for the content; `tokens` (NULL: not told) are split alike. */
void delivery_say(struct gateway *gateway, const struct request *request,
                  const struct delivery_text *text, const struct token_list *tokens);

/* An event with tokens of the prompt and their log probabilities. */
void delivery_say_echo(struct gateway *gateway, const struct request *request,
                       const struct token_list *echoed);

/* The choice's last event. */
void delivery_say_finish(struct gateway *gateway, const struct request *request,
                         const char *finish);

/* Tells a client that waits for its first token, or for a whole answer, that we are still here; the
 * latter only from when an answer can be expected. */
enum status delivery_keep_alive(struct gateway *gateway, struct request *leader) MUST_USE;

/* ---- in a whole answer ---- */

/* False when so many more bytes of JSON would be more than may be said. */
bool delivery_has_room(const struct gateway *gateway, const struct request *request, size_t more);

/* False when the answer has outgrown what may be said. */
bool delivery_gather(struct gateway *gateway, struct request *request,
                     const struct delivery_text *text);

#endif
