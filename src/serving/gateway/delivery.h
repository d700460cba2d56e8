/* SPDX-License-Identifier: Apache-2.0
 * An answer's text on its way to the client: said piece by piece in a stream, or gathered into a
 * whole answer, or both where the request's dialect repeats at the end what it has said. What is
 * said needs room in the outbox, of which the caller has made sure.
 */
#ifndef SERVING_GATEWAY_DELIVERY_H
#define SERVING_GATEWAY_DELIVERY_H

#include "serving/gateway/gateway_state.h"

struct delivery_run { /* text of one part; of a call, one of its pieces */
    struct delivery_run *next;
    enum token_stream_part part;
    struct bytes text;
    uint32_t token_at; /* tokens of the answer before the one that began it */
};

struct delivery_text { /* what tokens say: runs, in order */
    struct arena *arena;
    char *text;
    size_t room, count;
    struct delivery_run *first, *last;
    uint32_t run_count;
    uint32_t token_at;   /* tokens of the answer before the one that is pushed */
    uint32_t turn_count; /* changes between reasoning and content, among the tokens */
    uint32_t calls_left; /* that may still be made */
    bool calls_ended;    /* one more would have been made: the answer ends before it */
};

/* Empty, in the gateway's scratch memory, which is cleared. */
struct delivery_text delivery_open(struct gateway *gateway, const struct request *request,
                                   size_t room);

/* For token_stream_push and token_stream_finish: `context` is a struct delivery_text. */
void delivery_add(void *context, enum token_stream_part part, struct bytes more);

/* What the request's token stream still holds back; nothing once `flushed` is set. */
struct delivery_text delivery_flush(struct gateway *gateway, struct request *request);

#define DELIVERY_ESCAPED_PER_BYTE 6 /* a byte of text takes so many in JSON at most: \u0000 */

/* False when the answer has outgrown what may be kept of it: then it is to be cut. `tokens` (NULL:
 * not told) are told with the first run of their turn. In a stream this takes room for
 * delivery_bytes_max, and delivery_start has been called. */
bool delivery_tell(struct gateway *gateway, struct request *request,
                   const struct delivery_text *text, const struct token_list *tokens);

/* ---- in a stream ---- */

/* STREAM_BEGIN unless it has gone out, and the choice's first events: that it begins, and the
 * prompt that is to be echoed. */
void delivery_start(struct gateway *gateway, struct request *request);
size_t delivery_start_bytes_max(const struct request *request);

/* Beside its tokens; with what its events repeat. */
size_t delivery_bytes_max(const struct request *request, const struct delivery_text *text);

/* An event with tokens of the prompt and their log probabilities. */
void delivery_say_echo(struct gateway *gateway, struct request *request,
                       const struct token_list *echoed);

/* The choice's last event. */
void delivery_say_finish(struct gateway *gateway, struct request *request, enum api_finish finish,
                         struct bytes stop);

/* Room for one event, or the frame of a whole answer, beside what it is about. */
size_t delivery_frame_bytes(const struct request *request);

/* What one event repeats of the request, if it does. */
size_t delivery_told_bytes(const struct request *request);

/* Tells a client that waits for its first token, or for a whole answer, that we are still here; the
 * latter only from when an answer can be expected. */
enum status delivery_keep_alive(struct gateway *gateway, struct request *leader) MUST_USE;

/* ---- in a whole answer, and where a stream repeats itself ---- */

/* False when so many more bytes of JSON would be more than may be said. */
bool delivery_has_room(const struct gateway *gateway, const struct request *request, size_t more);

/* A stream's last events repeat the log probabilities. */
bool delivery_repeats_tokens(const struct request *request);

/* Events may repeat so often what they say. */
uint32_t delivery_repeats(const struct request *request);

/* The choice as it is. */
struct api_choice delivery_choice(const struct request *request, enum api_finish finish,
                                  struct bytes stop);

#endif
