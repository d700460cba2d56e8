/* SPDX-License-Identifier: Apache-2.0
 * A dialect is the format of one API's requests and answers. It reads a body into the inner request
 * (api_request.h), where rows of the table of fields (api_field.h) read the simple fields. It
 * prints events and whole answers (api_answer.h). A new dialect needs its own files in
 * serving/gateway/dialects, a number here, its rows in the table of fields, and a line for its path
 * in serving/gateway/endpoint.h.
 *
 * Some events need counters: Anthropic's API numbers content blocks, and OpenAI's Responses API
 * numbers all events. The printer keeps them in its choice's struct dialect_place and may change
 * nothing else.
 */
#pragma once

#include "serving/gateway/api/api_answer.h"
#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_request.h"

#define DIALECT_CALL_BYTES ((size_t)512)

enum dialect_number {
    DIALECT_CHAT,
    DIALECT_COMPLETION,
    DIALECT_ANTHROPIC,
    DIALECT_RESPONSES,
    DIALECT_OLLAMA_CHAT,
    DIALECT_OLLAMA_GENERATE,
    DIALECT_COUNT
};

struct dialect {
    const char *name;           /* name for people and in /openapi.json */
    enum dialect_number number; /* (1 << number) is its bit in the table of fields */
    bool chats;                 /* requests have messages; else prompts */
    const char *prompt_field;   /* the field to shorten when the request is too long */
    const char *call_prefix;    /* prefix of generated ids of calls */
    bool has_400_for_422;       /* the API uses 400 where others use 422 */
    bool streams_lines;         /* a stream is lines of JSON; else server-sent events */
    /* The text that a stream sends while it has no event. In server-sent events it follows the
     * line of a comment that describes the wait. */
    struct bytes keep_alive;
    /* The most bytes of one event, or of the frame of a whole answer. Parts that are counted
     * separately are excluded: text, names, ids and arguments of calls, tokens, receipts, and
     * api_answer.reported. In a whole answer each call takes at most DIALECT_CALL_BYTES in addition
     * to its texts. */
    size_t frame_bytes;
    uint32_t
        reports; /* the most times that BEGIN, DONE, FAILED or an answer has api_answer.reported */
    /* The most times that later events repeat a text; 0: never, and the text is not kept. */
    uint32_t repeats;

    /* Reads the fields that the table leaves to the dialect, after all rows, and checks that fields
     * are consistent. */
    bool (*read)(struct api_reader *reader, struct api_request *out);
    void (*write_whole)(struct json_writer *writer, const struct api_answer *answer,
                        const struct api_choice *choices, size_t choice_count,
                        const struct api_usage *usage);
    void (*write_event)(struct json_writer *writer, const struct api_answer *answer,
                        struct dialect_place *place, const struct api_event *event);
    /* Writes the progress of the prompt of choice 0; NULL: the API has no event for it. */
    void (*write_progress)(struct json_writer *writer, const struct api_answer *answer,
                           const struct api_progress *progress);
    /* Answers a request for its prompt's tokens with their count, or one that needs no answer of
     * the model; NULL: the answer is the list of tokens. */
    void (*write_count)(struct json_writer *writer, uint32_t prompt_tokens);
    void (*write_error)(struct json_writer *writer, const struct api_error *error);
    /* Sets the error of a prompt that is too long; NULL: api_error_length is used. */
    void (*explain_length)(struct api_error *error, const struct api_length *length);
};
