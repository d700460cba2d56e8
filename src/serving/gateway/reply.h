/* SPDX-License-Identifier: Apache-2.0
 * Words to a client: whole answers and pieces of a stream, measured first and then written straight
 * into the outbox. STATUS_FULL: nothing was put.
 */
#ifndef SERVING_GATEWAY_REPLY_H
#define SERVING_GATEWAY_REPLY_H

#include "serving/gateway/gateway_state.h"

/* Writes a body; called twice with the same result. */
typedef void reply_writer(struct json_writer *writer, const void *context);

struct reply {
    struct connection_id connection;
    enum endpoint_number endpoint;
    uint32_t http_status;
    enum content_type content_type;
    uint32_t retry_after_seconds;
    uint32_t allow;
    struct bytes receipt; /* for its header; empty: none */
};

/* RESPOND, and counts the answer. */
enum status reply_whole(struct gateway *gateway, const struct reply *reply, reply_writer *write,
                        const void *context) MUST_USE;

/* RESPOND with an API error. */
enum status reply_error(struct gateway *gateway, struct connection_id connection,
                        enum endpoint_number endpoint, const struct api_error *error) MUST_USE;

/* STREAM_BEGIN, and counts the answer. */
enum status reply_begin(struct gateway *gateway, struct request *leader) MUST_USE;

/* STREAM_DATA. */
enum status reply_data(struct gateway *gateway, const struct request *request, reply_writer *write,
                       const void *context) MUST_USE;

/* STREAM_END. */
enum status reply_end(struct gateway *gateway, const struct request *request) MUST_USE;

/* The request has no answer: RESPOND with the error, or where its stream has begun already, the
 * error as the last event and STREAM_END. */
enum status reply_no_answer(struct gateway *gateway, const struct request *leader,
                            const struct api_error *error) MUST_USE;

/* Bytes of events around the text: enough for all but the text itself of four events. */
#define REPLY_FRAME_BYTES ((size_t)16 << 10)

/* What the texts of all choices, written as JSON, may take together in a RESPOND beside its
 * receipts. */
size_t reply_text_bytes_max(const struct gateway *gateway, uint32_t choice_count);

#endif
