/* SPDX-License-Identifier: Apache-2.0
 * Sends an answer's text to the client: piece by piece in a stream, or collected into a whole
 * answer, or both if the request's dialect repeats the text at the end. The caller makes sure that
 * the outbox has room.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* New tokens of one request, and the text that they release: the pieces that every dialect prints.
 * In the gateway's scratch memory. */
struct answer_delta {
    /* The unit's; none for text that was held back. */
    const uint32_t *tokens; /* [token_count] */
    uint32_t token_count;
    uint32_t each;                        /* log probabilities of a token; 0: none */
    const struct token_logprob *logprobs; /* [token_count][each] */
    /* The text, as tokens are pushed. */
    struct arena *arena;
    char *text;
    size_t text_room, text_count;
    struct api_piece *first, *last; /* in order */
    uint32_t piece_count;
    uint32_t token_at;    /* count of the answer's tokens before the one that is pushed */
    struct bytes call_id; /* of the next call; empty: none */
    uint32_t calls_left;  /* calls that may still be made */
    bool calls_ended;     /* another call began beyond the limit: the answer ends before it */
    /* The tokens. */
    uint32_t taken;          /* the first ones, up to the one that ends the answer */
    bool *reasons;           /* [taken] for each token: it belongs to the reasoning */
    uint32_t turn_count;     /* changes between reasoning and content */
    enum request_cause ends; /* CAUSE_NONE: the answer continues */
    struct token_list list;  /* in a stream: those that its events report */
    uint32_t reported;       /* of the list, so far */
};

/* Makes the delta empty, with room for so much text. Clears the gateway's scratch memory. */
void stream_writer_open(struct gateway *gateway, const struct request *request, size_t room,
                        struct answer_delta *delta);

/* For token_stream_push and token_stream_finish: `context` is a struct answer_delta. */
void stream_writer_add(void *context, enum token_stream_part part, struct bytes more);

/* The text that the request's token stream still holds back. Empty once `flushed` is set. */
void stream_writer_flush(struct gateway *gateway, struct request *request,
                         struct answer_delta *delta);

#define STREAM_WRITER_ESCAPED_PER_BYTE                                                             \
    6 /* one byte of text needs at most so many in JSON: \u0000 */

/* Sends or keeps the text. Returns false if the answer has outgrown its memory; the caller must
 * then cut it. Tokens are reported with the first piece of their turn. In a stream it takes room for
 * stream_writer_bytes_max and requires an earlier stream_writer_start. */
bool stream_writer_report(struct gateway *gateway, struct request *request,
                          struct answer_delta *delta);

/* ---- in a stream ---- */

/* Puts STREAM_BEGIN unless it was sent, and the choice's first events: its start, and the prompt to
 * be echoed. */
void stream_writer_start(struct gateway *gateway, struct request *request);
size_t stream_writer_start_bytes_max(const struct request *request);

/* Bytes in addition to its tokens, including the text that events repeat. */
size_t stream_writer_bytes_max(const struct request *request, const struct answer_delta *delta);

/* Sends an event with tokens of the prompt and their log probabilities. */
void stream_writer_say_echo(struct gateway *gateway, struct request *request,
                            const struct token_list *echoed);

/* Sends the choice's last event. */
void stream_writer_say_finish(struct gateway *gateway, struct request *request,
                              enum api_finish finish, struct bytes stop);

/* Bytes for one event, or for the frame of a whole answer, without its contents. */
size_t stream_writer_frame_bytes(const struct request *request);

/* Bytes of the request's fields that one event repeats, if it does. */
size_t stream_writer_reported_bytes(const struct request *request);

/* Sends a keep-alive to a client that waits for its first token or for a whole answer. For the
 * latter, only from the time at which an answer can be expected. */
enum status stream_writer_keep_alive(struct gateway *gateway, struct request *leader) MUST_USE;

/* ---- in a whole answer, and where a stream repeats itself ---- */

/* False if so many more bytes of JSON would exceed the limit of an answer. */
bool stream_writer_has_room(const struct gateway *gateway, const struct request *request,
                            size_t more);

/* True if a stream's last events repeat the log probabilities. */
bool stream_writer_repeats_tokens(const struct request *request);

/* How many times events may repeat their text. */
uint32_t stream_writer_repeats(const struct request *request);

/* The choice in its present state. */
struct api_choice stream_writer_choice(const struct request *request, enum api_finish finish,
                                       struct bytes stop);
