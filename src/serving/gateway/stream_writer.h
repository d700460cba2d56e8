/* SPDX-License-Identifier: Apache-2.0
 * Sends an answer's text to the client: piece by piece in a stream, or collected into a whole
 * answer, or both if the request's dialect repeats the text at the end of a stream. The caller
 * makes sure that the outbox has room.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* New tokens of one request, and the text that they release, as pieces that every dialect can
 * print. It points into the gateway's scratch memory. */
struct answer_delta {
    /* Tokens from the unit; none for text that was held back. */
    const uint32_t *tokens; /* [token_count] */
    uint32_t token_count;
    uint32_t each;                        /* entries of log probabilities per token; 0: none */
    const struct token_logprob *logprobs; /* [token_count][each] */
    /* The text, which grows as tokens are pushed. */
    struct arena *arena;
    char *text;
    size_t text_room, text_count;
    struct api_piece *first, *last; /* in order */
    uint32_t piece_count;
    uint32_t token_at;    /* index in the answer of the token that is pushed */
    struct bytes call_id; /* id of the next tool call; empty: none */
    uint32_t calls_left;  /* tool calls that may still be made */
    bool calls_ended;     /* a call beyond the limit began; the answer ends before it */
    /* Results of pushing the tokens. */
    uint32_t taken;          /* tokens up to and including the one that ends the answer */
    bool *reasons;           /* [taken] true for tokens of the reasoning */
    uint32_t turn_count;     /* changes between reasoning and content */
    enum request_cause ends; /* CAUSE_NONE: the answer continues */
    struct token_list list;  /* in a stream: the tokens that its events report */
    uint32_t reported;       /* tokens of `list` that were reported so far */
};

/* Sets up an empty delta with `room` bytes for text. Clears the gateway's scratch memory. */
void stream_writer_open(struct gateway *gateway, const struct request *request, size_t room,
                        struct answer_delta *delta);

/* The callback for token_stream_push and token_stream_finish. `context` is a struct
 * answer_delta. */
void stream_writer_add(void *context, enum token_stream_part part, struct bytes more);

/* Fills the delta with the text that the token stream still holds back; none once `flushed` is
 * set. */
void stream_writer_flush(struct gateway *gateway, struct request *request,
                         struct answer_delta *delta);

#define STREAM_WRITER_ESCAPED_PER_BYTE 6 /* JSON bytes of one byte of text, at most: \u0000 */

/* Sends or keeps the text. Returns false if the answer has outgrown its memory; the caller must
 * then cut it. Tokens are reported with the first piece of their turn. A stream requires an earlier
 * stream_writer_start, and stream_writer_bytes_max of room in the outbox. */
bool stream_writer_report(struct gateway *gateway, struct request *request,
                          struct answer_delta *delta);

/* ---- in a stream ---- */

/* Puts STREAM_BEGIN unless it was sent, and the choice's first events: its start and the echoed
 * prompt. */
void stream_writer_start(struct gateway *gateway, struct request *request);
size_t stream_writer_start_bytes_max(const struct request *request);

/* The most outbox bytes of the delta's events without tokens, including the text that they
 * repeat. */
size_t stream_writer_bytes_max(const struct request *request, const struct answer_delta *delta);

void stream_writer_say_echo(struct gateway *gateway, struct request *request,
                            const struct token_list *echoed);

void stream_writer_say_finish(struct gateway *gateway, struct request *request,
                              enum api_finish finish, struct bytes stop);

/* Bytes of one event, or of the frame of a whole answer, without contents. */
size_t stream_writer_frame_bytes(const struct request *request);

/* The most bytes of the request's fields that events repeat (struct dialect's `reports`). */
size_t stream_writer_reported_bytes(const struct request *request);

/* Sends a keep-alive to a client that waits for its first token or for a whole answer. A whole
 * answer gets one only if it is likely to succeed, because the HTTP status is sent with it. */
enum status stream_writer_keep_alive(struct gateway *gateway, struct request *leader) MUST_USE;

/* ---- in a whole answer, and where a stream repeats itself ---- */

/* False if `more` bytes of JSON would exceed the size limit of an answer. */
bool stream_writer_has_room(const struct gateway *gateway, const struct request *request,
                            size_t more);

/* True if a stream's last events repeat the log probabilities. */
bool stream_writer_repeats_tokens(const struct request *request);

/* How many times events may repeat the text. */
uint32_t stream_writer_repeats(const struct request *request);

/* The choice in its current state. */
struct api_choice stream_writer_choice(const struct request *request, enum api_finish finish,
                                       struct bytes stop);
