/* SPDX-License-Identifier: Apache-2.0
 * Each function here first makes sure that the outbox can take all it may say, then acts: the state
 * of a token stream cannot be wound back.
 */
#include "gateway/answer.h"

#include "base/check.h"
#include "gateway/reply.h"

/* ---- pieces of text ------------------------------------------------------------------------- */

struct pieces { /* what a run of tokens says: reasoning, and behind it content */
    char *text;
    size_t room, count, reasoning_count;
};

static void pieces_add(void *context, enum token_stream_part part, struct bytes text) {
    struct pieces *pieces = context;
    check(text.count <= pieces->room - pieces->count);
    memcpy(pieces->text + pieces->count, text.data, text.count);
    pieces->count += text.count;
    if (part == TOKEN_STREAM_REASONING) pieces->reasoning_count = pieces->count;
}

static struct bytes pieces_part(const struct pieces *pieces, enum token_stream_part part) {
    size_t split = pieces->reasoning_count;
    return part == TOKEN_STREAM_REASONING
               ? (struct bytes){pieces->text, split}
               : (struct bytes){pieces->text + split, pieces->count - split};
}

/* Bytes of text that these tokens can release at most. */
static size_t text_bytes_max(const struct gateway *gateway, const uint32_t *tokens, size_t count) {
    size_t bytes = TOKEN_STREAM_HELD_MAX;
    for (size_t i = 0; i < count; i++)
        bytes += 3 * tokenizer_token_bytes(gateway->options.tokenizer, tokens[i]).count +
                 TOKEN_STREAM_HELD_MAX;
    return bytes;
}

#define ESCAPED_PER_BYTE 6 /* \u0000 */
#define JSON_BYTES_PER_ID 11

/* ---- to a stream ---------------------------------------------------------------------------- */

struct event { /* arguments of the reply_writers below */
    const struct request *request;
    enum token_stream_part part;
    struct bytes text;
    const uint32_t *tokens;
    size_t token_count;
    const char *finish;
    const struct api_usage *usage;
    const struct api_error *error;
};

static void write_role(struct json_writer *writer, const void *context) {
    const struct request *request = ((const struct event *)context)->request;
    api_response_role(writer, &request->answer, request->mode == TOKEN_STREAM_IN_REASONING);
}

static void write_delta(struct json_writer *writer, const void *context) {
    const struct event *event = context;
    api_response_delta(writer, &event->request->answer, event->part, event->text);
}

static void write_ids(struct json_writer *writer, const void *context) {
    const struct event *event = context;
    api_response_token_ids(writer, &event->request->answer, event->tokens, event->token_count);
}

static void write_end(struct json_writer *writer, const void *context) {
    const struct event *event = context;
    api_response_end(writer, &event->request->answer, event->finish, event->usage);
}

static void write_failed(struct json_writer *writer, const void *context) {
    api_response_failed(writer, ((const struct event *)context)->error);
}

static void write_keep_alive(struct json_writer *writer, const void *context) {
    (void)context;
    json_writer_text(writer, API_RESPONSE_KEEP_ALIVE);
}

/* Room has been made sure of. */
static void say(struct gateway *gateway, const struct request *request, reply_writer *write,
                const struct event *event) {
    enum status status = reply_data(gateway, request, write, event);
    check(status == STATUS_OK);
}

static void say_text(struct gateway *gateway, const struct request *request,
                     enum token_stream_part part, struct bytes text) {
    struct event event = {.request = request, .part = part, .text = text};
    if (text.count) say(gateway, request, write_delta, &event);
}

/* STREAM_BEGIN, and the first event: the role, or the prompt that is to be echoed. */
static void start_stream(struct gateway *gateway, struct request *request) {
    struct event event = {.request = request};
    if (!request->begun) {
        enum status status = reply_begin(gateway, request);
        check(status == STATUS_OK);
    }
    gateway->wake_ns[request_slot(gateway, request)] = MACHINE_NEVER;
    if (request->spoken) return;
    request->spoken = true;
    if (request->answer.endpoint == API_CHAT) say(gateway, request, write_role, &event);
    if (request->text.count == 0) return;
    arena_clear(&gateway->scratch);
    struct json_writer writer = {.out = arena_take(&gateway->scratch, request->text.count),
                                 .room = request->text.count};
    check(writer.out); /* bounded when the request came */
    answer_text_write(&request->text, 0, request->text.count, false, &writer);
    say_text(gateway, request, TOKEN_STREAM_CONTENT, (struct bytes){writer.out, writer.count});
}

static size_t start_bytes_max(const struct request *request) {
    return request->spoken ? 0 : REPLY_FRAME_BYTES + request->text.escaped_count;
}

/* ---- to a whole answer ---------------------------------------------------------------------- */

/* False when the answer has outgrown what may be said. */
static bool gather(struct gateway *gateway, struct request *request, struct bytes text) {
    size_t escaped_count = request->text.escaped_count + json_writer_escaped_count(text);
    return escaped_count <= reply_text_bytes_max(gateway) &&
           answer_text_add(&request->text, &request->arena, text);
}

static bool gather_ids(struct gateway *gateway, struct request *request, const uint32_t *tokens,
                       size_t count) {
    for (size_t i = 0; i < count; i++) {
        char digits[JSON_BYTES_PER_ID + 1];
        struct json_writer writer = {.out = digits, .room = sizeof digits};
        if (request->text.count) json_writer_text(&writer, ",");
        json_writer_unsigned(&writer, tokens[i]);
        if (!gather(gateway, request, (struct bytes){digits, writer.count})) return false;
    }
    return true;
}

static bool gather_pieces(struct gateway *gateway, struct request *request,
                          const struct pieces *pieces) {
    struct bytes reasoning = pieces_part(pieces, TOKEN_STREAM_REASONING);
    bool fits = gather(gateway, request, reasoning);
    if (reasoning.count) request->text.reasoning_count = request->text.count;
    return fits && gather(gateway, request, pieces_part(pieces, TOKEN_STREAM_CONTENT));
}

/* ---- tokens --------------------------------------------------------------------------------- */

static void cancel(struct gateway *gateway, struct request *request, enum request_ending ending) {
    struct record_cancel *record = outbox_put(&gateway->outbox, RECORD_CANCEL, sizeof *record);
    check(record);
    record->request = request->answer.id;
    request->state = REQUEST_ENDING;
    request->ending = (uint8_t)ending;
    gateway->wake_ns[request_slot(gateway, request)] = MACHINE_NEVER;
}

static void take_ids(struct gateway *gateway, struct request *request, const uint32_t *tokens,
                     size_t count) {
    struct event event = {.request = request, .tokens = tokens, .token_count = count};
    request->output_tokens += (uint32_t)count;
    if (request->stream)
        say(gateway, request, write_ids, &event);
    else if (!gather_ids(gateway, request, tokens, count))
        cancel(gateway, request, ENDING_TOO_LONG);
}

static struct pieces open_pieces(struct gateway *gateway, size_t room) {
    arena_clear(&gateway->scratch);
    struct pieces pieces = {.text = arena_take(&gateway->scratch, room), .room = room};
    check(pieces.text); /* the outbox, which is smaller, has room for it six times */
    return pieces;
}

static void take_words(struct gateway *gateway, struct request *request, const uint32_t *tokens,
                       size_t count) {
    struct pieces pieces = open_pieces(gateway, text_bytes_max(gateway, tokens, count));
    bool stopped = false, fits = true;
    for (size_t i = 0; i < count && !stopped; i++) {
        stopped = token_stream_push(&request->words, tokens[i], pieces_add, &pieces);
        request->output_tokens++;
    }
    if (request->stream) {
        say_text(gateway, request, TOKEN_STREAM_REASONING,
                 pieces_part(&pieces, TOKEN_STREAM_REASONING));
        say_text(gateway, request, TOKEN_STREAM_CONTENT,
                 pieces_part(&pieces, TOKEN_STREAM_CONTENT));
    } else {
        fits = gather_pieces(gateway, request, &pieces);
    }
    if (stopped || !fits) cancel(gateway, request, stopped ? ENDING_STOP_STRING : ENDING_TOO_LONG);
}

enum status answer_tokens(struct gateway *gateway, const struct record_tokens *record,
                          int64_t now_ns) {
    struct request *request = request_find(gateway, record->request);
    if (!request || request->state != REQUEST_SUBMITTED) return STATUS_OK;
    check(record->first_output_position <= request->output_tokens);
    uint32_t known = request->output_tokens - record->first_output_position;
    if (known >= record->token_count) return STATUS_OK; /* repeats */
    const uint32_t *tokens = (const uint32_t *)record_tail_at(record, sizeof *record) + known;
    size_t count = record->token_count - known;
    size_t said = gateway->options.tokenizer
                      ? ESCAPED_PER_BYTE * text_bytes_max(gateway, tokens, count)
                      : JSON_BYTES_PER_ID * count;
    size_t room = sizeof(struct record_cancel);
    if (request->stream) room += REPLY_FRAME_BYTES + start_bytes_max(request) + said;
    check(room <= gateway->outbox.capacity);
    if (outbox_room(&gateway->outbox) < room) return STATUS_FULL;
    metrics_count_tokens(&gateway->metrics, &request->times, now_ns);
    if (request->stream) start_stream(gateway, request);
    if (gateway->options.tokenizer)
        take_words(gateway, request, tokens, count);
    else
        take_ids(gateway, request, tokens, count);
    return STATUS_OK;
}

/* ---- the end -------------------------------------------------------------------------------- */

#define FINISH_CUT "insufficient_system_resource"

/* The finish reason to tell; NULL: there is no answer to speak of, *error says why. */
static const char *finish_of(const struct request *request, enum finish_reason reason,
                             struct api_error *error) {
    /* The unit may have ended it for a reason of its own before it heard of our CANCEL. */
    if (request->ending == ENDING_STOP_STRING) return "stop";
    if (request->ending == ENDING_TOO_LONG) return FINISH_CUT;
    switch (reason) {
    case FINISH_STOP_TOKEN:
        return "stop";
    case FINISH_LENGTH:
        return "length";
    case FINISH_REFUSED_QUEUE:
        api_error_set(error, 429, NULL, "queue_full",
                      "The queue of the model is full. Try again later.");
        error->retry_after_seconds = 1;
        return NULL;
    case FINISH_REFUSED_TOO_LARGE:
        api_error_set(error, 400, NULL, "context_length_exceeded",
                      "The request is larger than the model's context or memory.");
        return NULL;
    case FINISH_REFUSED_DRAINING:
        api_error_set(error, 503, NULL, "draining", "The server is shutting down.");
        error->retry_after_seconds = 1;
        return NULL;
    case FINISH_CANCELLED:
    case FINISH_FAILED:
    case FINISH_REASON_COUNT:
        break;
    }
    if (request->output_tokens) return FINISH_CUT;
    api_error_set(error, 503, NULL, "engine_failed",
                  "The model could not compute an answer. Try again.");
    error->retry_after_seconds = 1;
    return NULL;
}

/* What the token stream still holds back. */
static struct pieces flush(struct gateway *gateway, struct request *request) {
    struct pieces pieces = open_pieces(gateway, 3 * TOKEN_STREAM_HELD_MAX);
    if (gateway->options.tokenizer && !request->flushed)
        token_stream_finish(&request->words, pieces_add, &pieces);
    request->flushed = true;
    return pieces;
}

static enum status end_stream(struct gateway *gateway, struct request *request,
                              struct event *event) {
    size_t room = 2 * REPLY_FRAME_BYTES + start_bytes_max(request) +
                  ESCAPED_PER_BYTE * 3 * TOKEN_STREAM_HELD_MAX;
    if (outbox_room(&gateway->outbox) < room) return STATUS_FULL;
    if (event->finish) {
        start_stream(gateway, request);
        struct pieces pieces = flush(gateway, request);
        say_text(gateway, request, TOKEN_STREAM_REASONING,
                 pieces_part(&pieces, TOKEN_STREAM_REASONING));
        say_text(gateway, request, TOKEN_STREAM_CONTENT,
                 pieces_part(&pieces, TOKEN_STREAM_CONTENT));
    }
    say(gateway, request, event->finish ? write_end : write_failed, event);
    return reply_end(gateway, request);
}

static void write_whole(struct json_writer *writer, const void *context) {
    const struct event *event = context;
    api_response_whole(writer, &event->request->answer, &event->request->text, event->finish,
                       event->usage);
}

static enum status end_whole(struct gateway *gateway, struct request *request,
                             struct event *event) {
    struct reply reply = {.connection = request->connection,
                          .endpoint = request_endpoint(request),
                          .http_status = 200,
                          .content_type = CONTENT_JSON};
    struct pieces pieces = flush(gateway, request);
    if (pieces.count && !gather_pieces(gateway, request, &pieces)) {
        request->ending = ENDING_TOO_LONG; /* remembered, should the outbox be full now */
        event->finish = FINISH_CUT;
    }
    return reply_whole(gateway, &reply, write_whole, event);
}

static enum status end_request(struct gateway *gateway, struct request *request,
                               const struct record_finished *record) {
    struct api_error error = {0};
    /* Tokens beyond a stop string, computed before the unit heard of it, are not the client's. */
    struct api_usage usage = {.prompt_tokens = request->prompt_tokens,
                              .prompt_hit_tokens = record->prompt_hit_tokens,
                              .completion_tokens = request->output_tokens,
                              .reasoning_tokens = request->words.reasoning_tokens};
    struct event event = {.request = request,
                          .finish = finish_of(request, record->reason, &error),
                          .usage = &usage,
                          .error = &error};
    if (request->client_gone) return STATUS_OK;
    if (request->stream && (event.finish || request->begun))
        return end_stream(gateway, request, &event);
    if (event.finish) return end_whole(gateway, request, &event);
    return reply_error(gateway, request->connection, request_endpoint(request), &error);
}

enum status answer_finished(struct gateway *gateway, const struct record_finished *record,
                            int64_t now_ns) {
    struct request *request = request_find(gateway, record->request);
    if (!request) return STATUS_OK;
    check(request->state == REQUEST_SUBMITTED || request->state == REQUEST_ENDING);
    check(record->reason < FINISH_REASON_COUNT);
    enum status status = end_request(gateway, request, record);
    if (status) return status;
    metrics_count_end(&gateway->metrics, &request->times, record,
                      request->ending == ENDING_STOP_STRING, now_ns);
    request_release(gateway, request);
    return STATUS_OK;
}

enum status answer_client_gone(struct gateway *gateway, const struct record_client_gone *record) {
    struct request *request = request_of_connection(gateway, record->connection);
    if (!request) return STATUS_OK; /* it has had its answer */
    if (outbox_room(&gateway->outbox) < sizeof(struct record_cancel)) return STATUS_FULL;
    gateway->metrics.cancelled++;
    if (!request->begun) metrics_count_answer(&gateway->metrics, request_endpoint(request), 499);
    if (request->state == REQUEST_TOKENIZING) {
        request_release(gateway, request);
        return STATUS_OK;
    }
    request_forget_connection(gateway, request);
    if (request->state == REQUEST_SUBMITTED) cancel(gateway, request, ENDING_CLIENT_GONE);
    return STATUS_OK;
}

enum status answer_keep_alive(struct gateway *gateway, struct request *request) {
    struct event event = {.request = request};
    size_t room = sizeof(struct record_stream_begin) + sizeof(struct record_stream_data) + 64;
    if (outbox_room(&gateway->outbox) < room) return STATUS_FULL;
    if (!request->begun) {
        enum status status = reply_begin(gateway, request);
        check(status == STATUS_OK);
    }
    say(gateway, request, write_keep_alive, &event);
    return STATUS_OK;
}
