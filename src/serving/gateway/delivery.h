/* SPDX-License-Identifier: Apache-2.0
 * Sends an answer's text to the client: piece by piece in a stream, or collected into a whole
 * answer, or both if the request's dialect repeats the text at the end. The caller makes sure that
 * the outbox has room.
 */
#ifndef SERVING_GATEWAY_DELIVERY_H
#define SERVING_GATEWAY_DELIVERY_H

#include "serving/gateway/gateway_state.h"

struct delivery_run { /* text of one part, or one piece of a call */
    struct delivery_run *next;
    enum token_stream_part part;
    struct bytes text;
    uint32_t token_at; /* count of the answer's tokens before the one that began this run */
};

struct delivery_text { /* text of new tokens: runs, in order */
    struct arena *arena;
    char *text;
    size_t room, count;
    struct delivery_run *first, *last;
    uint32_t run_count;
    uint32_t token_at;   /* count of the answer's tokens before the one that is pushed */
    uint32_t turn_count; /* changes between reasoning and content, among the tokens */
    uint32_t calls_left; /* calls that may still be made */
    bool calls_ended;    /* another call began beyond the limit: the answer ends before it */
};

/* Empty, in the gateway's scratch memory, which is cleared. */
struct delivery_text delivery_open(struct gateway *gateway, const struct request *request,
                                   size_t room);

/* For token_stream_push and token_stream_finish: `context` is a struct delivery_text. */
void delivery_add(void *context, enum token_stream_part part, struct bytes more);

/* Returns the text that the request's token stream still holds back. Empty once `flushed` is
 * set. */
struct delivery_text delivery_flush(struct gateway *gateway, struct request *request);

#define DELIVERY_ESCAPED_PER_BYTE 6 /* one byte of text needs at most so many in JSON: \u0000 */

/* Sends or keeps the text. Returns false if the answer has outgrown its memory; the caller must
 * then cut it. `tokens` are reported with the first run of their turn (NULL: not reported). In a
 * stream it takes room for delivery_bytes_max and requires an earlier delivery_start. */
bool delivery_tell(struct gateway *gateway, struct request *request,
                   const struct delivery_text *text, const struct token_list *tokens);

/* ---- in a stream ---- */

/* Puts STREAM_BEGIN unless it was sent, and the choice's first events: its start, and the prompt to
 * be echoed. */
void delivery_start(struct gateway *gateway, struct request *request);
size_t delivery_start_bytes_max(const struct request *request);

/* Bytes in addition to its tokens, including the text that events repeat. */
size_t delivery_bytes_max(const struct request *request, const struct delivery_text *text);

/* Sends an event with tokens of the prompt and their log probabilities. */
void delivery_say_echo(struct gateway *gateway, struct request *request,
                       const struct token_list *echoed);

/* Sends the choice's last event. */
void delivery_say_finish(struct gateway *gateway, struct request *request, enum api_finish finish,
                         struct bytes stop);

/* Bytes for one event, or for the frame of a whole answer, without its contents. */
size_t delivery_frame_bytes(const struct request *request);

/* Bytes of the request's fields that one event repeats, if it does. */
size_t delivery_told_bytes(const struct request *request);

/* Sends a keep-alive to a client that waits for its first token or for a whole answer. For the
 * latter, only from the time at which an answer can be expected. */
enum status delivery_keep_alive(struct gateway *gateway, struct request *leader) MUST_USE;

/* ---- in a whole answer, and where a stream repeats itself ---- */

/* False if so many more bytes of JSON would exceed the limit of an answer. */
bool delivery_has_room(const struct gateway *gateway, const struct request *request, size_t more);

/* True if a stream's last events repeat the log probabilities. */
bool delivery_repeats_tokens(const struct request *request);

/* How many times events may repeat their text. */
uint32_t delivery_repeats(const struct request *request);

/* The choice in its present state. */
struct api_choice delivery_choice(const struct request *request, enum api_finish finish,
                                  struct bytes stop);

#endif
