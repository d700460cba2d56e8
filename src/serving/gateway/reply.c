/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/reply.h"

#include "base/check.h"
#include "base/format.h"
#include "contract/answer_header.h"
#include "serving/gateway/usage_record.h"

#define TOKEN_JSON_BYTES 8     /* "1048575," */
#define CHOICE_FRAME_BYTES 512 /* JSON around the text of each choice of a whole answer */

size_t reply_text_bytes_max(const struct gateway *gateway, uint32_t choice_count) {
    /* REPLY_FRAME_BYTES covers the choices of one prompt. */
    uint32_t more = choice_count > LIMIT_CHOICES ? choice_count - LIMIT_CHOICES : 0;
    return gateway->outbox.capacity - 2 * REPLY_FRAME_BYTES - LIMIT_CHOICES * RECEIPT_BYTES_MAX -
           more * CHOICE_FRAME_BYTES;
}

/* Puts a record. reply_write_tail appends its tails. */
static void *put(struct gateway *gateway, enum record_kind kind, const void *fixed) {
    return machine_outbox_put(&gateway->outbox, kind, fixed);
}

/* Appends a tail of bytes to the outbox's last record. `*count_out`, the record's count of them,
 * becomes 0 if there is no room. Then the caller takes the record back. */
static bool reply_write_tail(struct gateway *gateway, struct record *record, reply_writer *write,
                             const void *context, uint32_t *count_out) {
    struct outbox *outbox = &gateway->outbox;
    struct json_writer writer = {outbox->memory + outbox->used, outbox_room(outbox), 0};
    write(&writer, context);
    size_t bytes = round_up(writer.count, 8);
    if (bytes > writer.room) return false;
    memset(writer.out + writer.count, 0, bytes - writer.count);
    outbox->used += (uint32_t)bytes;
    record->bytes += (uint32_t)bytes;
    *count_out = (uint32_t)writer.count;
    return true;
}

/* Rolls the outbox back to `mark`. Replies are bounded so that an empty outbox has room for any of
 * them. */
static enum status take_back(struct gateway *gateway, uint32_t mark) {
    check(mark > 0);
    gateway->outbox.used = mark;
    return STATUS_FULL;
}

/* The context of the reply_writer for headers. */
struct headers_view {
    const struct gateway *gateway;
    const struct reply_notes *notes;
};

static void reply_write_name(struct json_writer *writer, enum answer_header header) {
    json_writer_text(writer, answer_header_name(header));
    json_writer_text(writer, ": ");
}

static void reply_write_header(struct json_writer *writer, enum answer_header header,
                               struct bytes value) {
    reply_write_name(writer, header);
    json_writer_bytes(writer, value);
    json_writer_text(writer, "\r\n");
}

/* Writes a time as OpenAI does: "12ms", "8.64s", "6m0s". */
static void write_reset(struct json_writer *writer, enum answer_header header, int64_t reset_ns) {
    int64_t ms = (reset_ns + 999999) / 1000000, seconds = ms / 1000 % 60;
    uint32_t places = ms % 10 ? 3 : ms % 100 ? 2 : 1;
    int32_t part = (int32_t)(places == 3   ? ms % 1000
                             : places == 2 ? ms % 1000 / 10
                                           : ms % 1000 / 100);
    char text[64];
    if (ms < 1000)
        format_text(text, sizeof text, "%lldms", (long long)ms);
    else if (part)
        format_text(text, sizeof text, "%lld.%0*ds", (long long)seconds, (int)places, part);
    else
        format_text(text, sizeof text, "%llds", (long long)seconds);
    reply_write_name(writer, header);
    if (ms >= 60000) {
        json_writer_integer(writer, ms / 60000);
        json_writer_text(writer, "m");
    }
    json_writer_text(writer, text);
    json_writer_text(writer, "\r\n");
}

static void reply_write_count(struct json_writer *writer, enum answer_header header,
                              uint64_t value) {
    reply_write_name(writer, header);
    json_writer_unsigned(writer, value);
    json_writer_text(writer, "\r\n");
}

static void write_standing(struct json_writer *writer, const struct account_standing *standing) {
    bool requests = standing->request_limit, tokens = standing->token_limit;
    if (requests) reply_write_count(writer, ANSWER_HEADER_LIMIT_REQUESTS, standing->request_limit);
    if (tokens) reply_write_count(writer, ANSWER_HEADER_LIMIT_TOKENS, standing->token_limit);
    if (requests)
        reply_write_count(writer, ANSWER_HEADER_REMAINING_REQUESTS, standing->requests_left);
    if (tokens) reply_write_count(writer, ANSWER_HEADER_REMAINING_TOKENS, standing->tokens_left);
    if (requests && standing->request_reset_ns >= 0)
        write_reset(writer, ANSWER_HEADER_RESET_REQUESTS, standing->request_reset_ns);
    if (tokens) write_reset(writer, ANSWER_HEADER_RESET_TOKENS, standing->token_reset_ns);
}

static void write_headers(struct json_writer *writer, const void *context) {
    const struct headers_view *view = context;
    const struct reply_notes *notes = view->notes;
    if (!notes) return;
    struct account_standing standing =
        accounts_standing(&view->gateway->accounts, notes->account, notes->key);
    write_standing(writer, &standing);
    if (notes->warning.count) reply_write_header(writer, ANSWER_HEADER_WARNING, notes->warning);
    if (notes->receipt.count) reply_write_header(writer, ANSWER_HEADER_RECEIPT, notes->receipt);
}

enum status reply_whole(struct gateway *gateway, const struct reply *reply, reply_writer *write,
                        const void *context) {
    struct headers_view headers = {gateway, reply->notes};
    uint32_t mark = gateway->outbox.used;
    struct record_respond *respond =
        put(gateway, RECORD_RESPOND,
            &(struct record_respond){.connection = reply->connection,
                                     .http_status = reply->http_status,
                                     .content_type = reply->content_type,
                                     .retry_after_seconds = reply->retry_after_seconds,
                                     .allow = reply->allow});
    if (!respond ||
        !reply_write_tail(gateway, &respond->record, write, context, &respond->body_bytes) ||
        !reply_write_tail(gateway, &respond->record, write_headers, &headers,
                          &respond->header_bytes))
        return take_back(gateway, mark);
    metrics_count_answer(&gateway->metrics, reply->endpoint, reply->http_status);
    return STATUS_OK;
}

enum status reply_call(struct gateway *gateway, const struct endpoint_call *call,
                       reply_writer *write, const void *context) {
    struct reply reply = {.connection = call->record->connection,
                          .endpoint = call->endpoint,
                          .http_status = 200,
                          .content_type = CONTENT_JSON};
    return reply_whole(gateway, &reply, write, context);
}

struct reported_error {            /* context of the writers below */
    const struct dialect *dialect; /* NULL: OpenAI's */
    const struct api_answer *answer;
    const struct dialect_place *place;
    const struct api_error *error;
};

static void reply_write_error(struct json_writer *writer, const void *context) {
    const struct reported_error *reported = context;
    if (reported->dialect)
        reported->dialect->write_error(writer, reported->error);
    else
        api_error_write(writer, reported->error);
}

static uint32_t reported_status(const struct dialect *dialect, const struct api_error *error) {
    bool folded = error->http_status == 422 && dialect && dialect->has_400_for_422;
    return folded ? 400 : error->http_status;
}

uint32_t reply_reported_status(const struct request *leader, const struct api_error *error) {
    return reported_status(endpoint_dialect(request_endpoint(leader)), error);
}

static enum status respond_error(struct gateway *gateway, struct connection_id connection,
                                 enum endpoint_number endpoint, const struct dialect *dialect,
                                 const struct reply_notes *notes, const struct api_error *error) {
    struct reply reply = {.connection = connection,
                          .notes = notes,
                          .endpoint = endpoint,
                          .http_status = reported_status(dialect, error),
                          .content_type = CONTENT_JSON,
                          .retry_after_seconds = error->retry_after_seconds,
                          .allow = error->allow};
    struct reported_error reported = {.dialect = dialect, .error = error};
    return reply_whole(gateway, &reply, reply_write_error, &reported);
}

enum status reply_error(struct gateway *gateway, struct connection_id connection,
                        enum endpoint_number endpoint, const struct reply_notes *notes,
                        const struct api_error *error) {
    const struct dialect *dialect = gateway->call->spoken;
    struct usage_mark mark = usage_record_mark(gateway);
    enum status status = usage_record_put_refused(gateway, reported_status(dialect, error), error);
    if (!status) status = respond_error(gateway, connection, endpoint, dialect, notes, error);
    if (status) usage_record_take_back(gateway, mark);
    return status;
}

static struct reply_notes notes_of(const struct request *leader) {
    return (struct reply_notes){.account = leader->asked.account, .key = leader->asked.key};
}

enum status reply_begin(struct gateway *gateway, struct request *leader) {
    struct reply_notes notes = notes_of(leader);
    notes.warning = leader->asked.warning;
    struct headers_view headers = {gateway, &notes};
    uint32_t mark = gateway->outbox.used;
    enum content_type streamed =
        leader->asked.answer.dialect->streams_lines ? CONTENT_LINES : CONTENT_EVENTS;
    enum content_type type = leader->asked.stream ? streamed : CONTENT_JSON;
    struct record_stream_begin *begin =
        put(gateway, RECORD_STREAM_BEGIN,
            &(struct record_stream_begin){.connection = leader->unreported.connection,
                                          .content_type = type});
    if (!begin ||
        !reply_write_tail(gateway, &begin->record, write_headers, &headers, &begin->header_bytes))
        return take_back(gateway, mark);
    check(begin->record.bytes <= REPLY_BEGIN_BYTES);
    leader->unreported.begun = true;
    metrics_count_answer(&gateway->metrics, request_endpoint(leader), 200);
    return STATUS_OK;
}

enum status reply_data(struct gateway *gateway, const struct request *request, reply_writer *write,
                       const void *context) {
    uint32_t mark = gateway->outbox.used;
    struct record_stream_data *data =
        put(gateway, RECORD_STREAM_DATA,
            &(struct record_stream_data){.connection = request->unreported.connection});
    if (!data || !reply_write_tail(gateway, &data->record, write, context, &data->data_bytes))
        return take_back(gateway, mark);
    if (data->data_bytes == 0) gateway->outbox.used = mark; /* the dialect prints no such event */
    return STATUS_OK;
}

enum status reply_end(struct gateway *gateway, const struct request *request) {
    struct record_stream_end end = {.connection = request->unreported.connection};
    return put(gateway, RECORD_STREAM_END, &end) ? STATUS_OK : STATUS_FULL;
}

/* Puts the rest of the answer. */
static enum status put_rest(struct gateway *gateway, const struct request *leader,
                            reply_writer *write, const void *context) {
    uint32_t mark = gateway->outbox.used;
    enum status status = reply_data(gateway, leader, write, context);
    if (!status) status = reply_end(gateway, leader);
    if (status) gateway->outbox.used = mark;
    return status;
}

enum status reply_answer(struct gateway *gateway, const struct request *leader,
                         struct bytes receipt, reply_writer *write, const void *context) {
    struct reply_notes notes = notes_of(leader);
    notes.warning = leader->asked.warning;
    notes.receipt = receipt;
    struct reply reply = {.connection = leader->unreported.connection,
                          .endpoint = request_endpoint(leader),
                          .http_status = 200,
                          .content_type = CONTENT_JSON,
                          .notes = &notes};
    if (leader->unreported.begun) return put_rest(gateway, leader, write, context);
    return reply_whole(gateway, &reply, write, context);
}

static void reply_write_failed(struct json_writer *writer, const void *context) {
    const struct reported_error *reported = context;
    struct dialect_place place = *reported->place;
    struct api_event event = {.kind = API_EVENT_FAILED, .error = reported->error};
    reported->dialect->write_event(writer, reported->answer, &place, &event);
}

enum status reply_no_answer(struct gateway *gateway, const struct request *leader,
                            const struct api_error *error) {
    struct reply_notes notes = notes_of(leader);
    if (!leader->unreported.begun)
        return respond_error(gateway, leader->unreported.connection, request_endpoint(leader),
                             endpoint_dialect(request_endpoint(leader)), &notes, error);
    struct reported_error reported = {leader->asked.answer.dialect, &leader->asked.answer,
                                      &leader->unreported.place, error};
    return put_rest(gateway, leader, leader->asked.stream ? reply_write_failed : reply_write_error,
                    &reported);
}

/* ---- tokens ---- */

static void write_tokens(struct json_writer *writer, const void *context) {
    const struct request_asked *asked = context;
    json_writer_print(writer, "{\"count\":%u,\"tokens\":[", asked->prompt_tokens);
    for (uint32_t i = 0; i < asked->prompt_tokens; i++)
        json_writer_print(writer, i ? ",%u" : "%u", asked->prompt[i]);
    json_writer_text(writer, "]}");
}

static void write_token_count(struct json_writer *writer, const void *context) {
    const struct request_asked *asked = context;
    asked->answer.dialect->write_count(writer, asked->prompt_tokens);
}

enum status reply_refuse_size(struct api_error *error, const char *param) {
    api_error_set(error, 413, param, "request_too_large",
                  "The response is longer than this server's limit. Send a shorter '%s'.", param);
    return STATUS_INVALID;
}

enum status reply_tokens(struct gateway *gateway, struct request *leader, int64_t now_ns,
                         struct api_error *error) {
    const struct request_asked *asked = &leader->asked;
    bool counts = asked->answer.dialect->write_count != NULL;
    if (!counts &&
        (size_t)asked->prompt_tokens * TOKEN_JSON_BYTES > reply_text_bytes_max(gateway, 1))
        return reply_refuse_size(error, "prompt");
    struct usage_mark mark = usage_record_mark(gateway);
    struct usage_fate fate = {.http_status = 200, .end = "counted"};
    enum status status = usage_record_put(gateway, leader, &fate, now_ns);
    if (!status)
        status = reply_answer(gateway, leader, BYTES_LITERAL(""),
                              counts ? write_token_count : write_tokens, asked);
    if (status) usage_record_take_back(gateway, mark);
    if (!status) request_release(gateway, leader);
    return status;
}
