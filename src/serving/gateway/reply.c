/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/reply.h"

#include "base/check.h"

size_t reply_text_bytes_max(const struct gateway *gateway) {
    return gateway->outbox.capacity - 2 * REPLY_FRAME_BYTES - LIMIT_CHOICES * RECEIPT_BYTES_MAX;
}

static size_t measure(reply_writer *write, const void *context) {
    struct json_writer counter = {0};
    write(&counter, context);
    return counter.count;
}

static void write_tail(reply_writer *write, const void *context, char *out, size_t bytes) {
    struct json_writer writer = {.out = out, .room = bytes};
    write(&writer, context);
    check(writer.count == bytes);
}

/* An empty outbox takes whatever we say; else somebody failed to bound it. */
static void *put(struct gateway *gateway, enum record_kind kind, const void *fixed) {
    void *record = outbox_put(&gateway->outbox, kind, fixed);
    check(record || gateway->outbox.used > 0);
    return record;
}

enum status reply_whole(struct gateway *gateway, const struct reply *reply, reply_writer *write,
                        const void *context) {
    size_t body_bytes = measure(write, context);
    struct record_respond *respond =
        put(gateway, RECORD_RESPOND,
            &(struct record_respond){.connection = reply->connection,
                                     .http_status = reply->http_status,
                                     .content_type = reply->content_type,
                                     .retry_after_seconds = reply->retry_after_seconds,
                                     .allow = reply->allow,
                                     .body_bytes = (uint32_t)body_bytes,
                                     .receipt_bytes = (uint32_t)reply->receipt.count});
    if (!respond) return STATUS_FULL;
    if (reply->receipt.count)
        memcpy(respond_receipt(respond), reply->receipt.data, reply->receipt.count);
    write_tail(write, context, respond_body(respond), body_bytes);
    metrics_count_answer(&gateway->metrics, reply->endpoint, reply->http_status);
    return STATUS_OK;
}

struct told_error {                /* arguments of the reply_writers below */
    const struct dialect *dialect; /* NULL: OpenAI's words */
    const struct api_answer *answer;
    const struct dialect_place *place;
    const struct api_error *error;
};

static void write_error(struct json_writer *writer, const void *context) {
    const struct told_error *told = context;
    if (told->dialect)
        told->dialect->write_error(writer, told->error);
    else
        api_error_write(writer, told->error);
}

enum status reply_error(struct gateway *gateway, struct connection_id connection,
                        enum endpoint_number endpoint, const struct api_error *error) {
    struct reply reply = {.connection = connection,
                          .endpoint = endpoint,
                          .http_status = error->http_status,
                          .content_type = CONTENT_JSON,
                          .retry_after_seconds = error->retry_after_seconds,
                          .allow = error->allow};
    struct told_error told = {.dialect = endpoint_dialect(endpoint), .error = error};
    return reply_whole(gateway, &reply, write_error, &told);
}

enum status reply_begin(struct gateway *gateway, struct request *leader) {
    if (!put(gateway, RECORD_STREAM_BEGIN,
             &(struct record_stream_begin){.connection = leader->owed.connection}))
        return STATUS_FULL;
    leader->owed.begun = true;
    metrics_count_answer(&gateway->metrics, request_endpoint(leader), 200);
    return STATUS_OK;
}

enum status reply_data(struct gateway *gateway, const struct request *request, reply_writer *write,
                       const void *context) {
    size_t data_bytes = measure(write, context);
    if (data_bytes == 0) return STATUS_OK; /* a dialect has nothing to say of it */
    struct record_stream_data *data =
        put(gateway, RECORD_STREAM_DATA,
            &(struct record_stream_data){.connection = request->owed.connection,
                                         .data_bytes = (uint32_t)data_bytes});
    if (!data) return STATUS_FULL;
    write_tail(write, context, stream_data(data), data_bytes);
    return STATUS_OK;
}

enum status reply_end(struct gateway *gateway, const struct request *request) {
    struct record_stream_end end = {.connection = request->owed.connection};
    return put(gateway, RECORD_STREAM_END, &end) ? STATUS_OK : STATUS_FULL;
}

static void write_failed(struct json_writer *writer, const void *context) {
    const struct told_error *told = context;
    struct dialect_place place = *told->place;
    struct api_event event = {.kind = API_EVENT_FAILED, .error = told->error};
    told->dialect->write_event(writer, told->answer, &place, &event);
}

enum status reply_no_answer(struct gateway *gateway, const struct request *leader,
                            const struct api_error *error) {
    uint32_t mark = gateway->outbox.used;
    if (!leader->owed.begun)
        return reply_error(gateway, leader->owed.connection, request_endpoint(leader), error);
    struct told_error told = {leader->asked.answer.dialect, &leader->asked.answer,
                              &leader->owed.place, error};
    enum status status = reply_data(gateway, leader, write_failed, &told);
    if (!status) status = reply_end(gateway, leader);
    if (status) gateway->outbox.used = mark;
    return status;
}
