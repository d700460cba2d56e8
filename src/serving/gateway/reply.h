/* SPDX-License-Identifier: Apache-2.0
 * Sends responses to a client: whole answers and pieces of a stream. Each is written in place in
 * the outbox. STATUS_FULL: nothing was put.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* Writes a body. After STATUS_FULL it is called again and must write the same. */
typedef void reply_writer(struct json_writer *writer, const void *context);

struct reply_notes {       /* the data of a request's response headers */
    uint32_t account, key; /* slots of the rate limits to report; ACCOUNT_NONE */
    struct bytes warning;  /* one line of visible ASCII; empty: none */
    struct bytes receipt;  /* one line of visible ASCII; empty: none */
};

struct reply {
    struct connection_id connection;
    enum endpoint_number endpoint;
    uint32_t http_status;
    enum content_type content_type;
    uint32_t retry_after_seconds;
    uint32_t allow;
    const struct reply_notes *notes; /* NULL: none */
};

/* Puts a RESPOND and counts the answer. */
enum status reply_whole(struct gateway *gateway, const struct reply *reply, reply_writer *write,
                        const void *context) MUST_USE;

/* Puts a RESPOND with status 200 and JSON. */
enum status reply_call(struct gateway *gateway, const struct endpoint_call *call,
                       reply_writer *write, const void *context) MUST_USE;

/* Puts the USAGE of the CLIENT_REQUEST that is being received and a RESPOND with an API error.
 * `notes` may be NULL. */
enum status reply_error(struct gateway *gateway, struct connection_id connection,
                        enum endpoint_number endpoint, const struct reply_notes *notes,
                        const struct api_error *error) MUST_USE;

/* Puts a STREAM_BEGIN, for a stream or for a whole answer that follows later, and counts the
 * answer. */
enum status reply_begin(struct gateway *gateway, struct request *leader) MUST_USE;

/* Puts a STREAM_DATA, or nothing if the writer writes nothing. */
enum status reply_data(struct gateway *gateway, const struct request *request, reply_writer *write,
                       const void *context) MUST_USE;

/* Puts a STREAM_END. */
enum status reply_end(struct gateway *gateway, const struct request *request) MUST_USE;

/* Puts the whole answer as a RESPOND, or as STREAM_DATA and STREAM_END if its head was sent. */
enum status reply_answer(struct gateway *gateway, const struct request *leader,
                         struct bytes receipt, reply_writer *write, const void *context) MUST_USE;

/* Ends a request without an answer. Puts a RESPOND with the error. If the answer has begun, the
 * error is the last event or the body instead, and STREAM_END follows. */
enum status reply_no_answer(struct gateway *gateway, const struct request *leader,
                            const struct api_error *error) MUST_USE;

/* The HTTP status for an error of the leader's request. */
uint32_t reply_reported_status(const struct request *leader, const struct api_error *error);

/* Answers a request for its prompt's tokens and releases it. STATUS_INVALID: there are too many;
 * *error is set. */
enum status reply_tokens(struct gateway *gateway, struct request *leader, int64_t now_ns,
                         struct api_error *error) MUST_USE;

/* Sets the error for an answer that would be too long. Returns STATUS_INVALID. */
enum status reply_refuse_size(struct api_error *error, const char *param) MUST_USE;

/* Bytes of the events around the text: enough for four events without their text. */
#define REPLY_FRAME_BYTES ((size_t)16 << 10)

/* Bytes of a STREAM_BEGIN, which has all headers except a receipt. */
#define REPLY_BEGIN_BYTES (sizeof(struct record_stream_begin) + 768 + API_WARNING_BYTES_MAX)

/* The most bytes that the texts of all choices, as JSON, may take together in a RESPOND, in
 * addition to receipts. */
size_t reply_text_bytes_max(const struct gateway *gateway, uint32_t choice_count);
