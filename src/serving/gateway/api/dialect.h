/* SPDX-License-Identifier: Apache-2.0
 * A dialect: the words in which clients of one API ask and are answered. It reads a body into the
 * inner request (api_request.h), of which the fields that need no thought are read by their rows in
 * the table (api_field.h), and prints inner events and whole answers (api_answer.h). To add one
 * takes its own files in serving/gateway/dialects, a number here, its rows in the table of fields
 * and a line for its path in serving/gateway/endpoint.h.
 *
 * Events may have to count: Anthropic's numbers content blocks, OpenAI's Responses every event. The
 * printer then keeps what it needs in its choice's struct dialect_place. It is called twice for
 * each event, to measure and to write, both times with the same place, and may change nothing else.
 */
#ifndef SERVING_GATEWAY_API_DIALECT_H
#define SERVING_GATEWAY_API_DIALECT_H

#include "serving/gateway/api/api_answer.h"
#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

#define DIALECT_CALL_BYTES ((size_t)512)

enum dialect_number {
    DIALECT_CHAT,
    DIALECT_COMPLETION,
    DIALECT_ANTHROPIC,
    DIALECT_RESPONSES,
    DIALECT_COUNT
};

struct dialect {
    const char *name;           /* for people, and in /openapi.json */
    enum dialect_number number; /* 1 << number: its bit in the table of fields */
    bool chats;                 /* it has messages; else a prompt */
    const char *prompt_field;   /* the field to shorten when the request is too long */
    const char *call_prefix;    /* of the ids that we make for calls */
    bool has_400_for_422;       /* as the API that it is of does */
    struct bytes keep_alive;    /* in a stream, while there is nothing to say */
    /* One event, or the frame of a whole answer, takes at most so many bytes, but for what counts
     * apart: text, names, ids and arguments of calls, tokens, receipts, and api_answer.told. A call
     * in a whole answer takes at most DIALECT_CALL_BYTES beside its texts. */
    size_t frame_bytes;
    uint32_t
        tells; /* api_answer.told stands in BEGIN, DONE, FAILED or an answer so often at most */
    /* Events after a text repeat it so often at most; 0: never, and it is not kept. */
    uint32_t repeats;

    /* Reads what the table's rows leave to it, after them, and checks fields against each other. */
    bool (*read)(struct api_reader *reader, struct api_request *out);
    void (*write_whole)(struct json_writer *writer, const struct api_answer *answer,
                        const struct api_choice *choices, size_t choice_count,
                        const struct api_usage *usage);
    void (*write_event)(struct json_writer *writer, const struct api_answer *answer,
                        struct dialect_place *place, const struct api_event *event);
    /* Of a request for its prompt's tokens; NULL: they are told as a list. */
    void (*write_count)(struct json_writer *writer, uint32_t prompt_tokens);
    void (*write_error)(struct json_writer *writer, const struct api_error *error);
    /* A prompt is too long; NULL: api_error_length. */
    void (*explain_length)(struct api_error *error, const struct api_length *length);
};

#endif
