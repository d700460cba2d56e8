/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/delivery.h"

#include "base/check.h"
#include "serving/gateway/reply.h"

/* ---- runs of text ---- */

struct delivery_text delivery_open(struct gateway *gateway, size_t room) {
    arena_clear(&gateway->scratch);
    struct delivery_text text = {.text = arena_take(&gateway->scratch, room), .room = room};
    check(text.text); /* the outbox, which is smaller, has room for it six times */
    return text;
}

void delivery_add(void *context, enum token_stream_part part, struct bytes more) {
    struct delivery_text *text = context;
    check(more.count <= text->room - text->count);
    memcpy(text->text + text->count, more.data, more.count);
    text->count += more.count;
    if (part == TOKEN_STREAM_REASONING) text->reasoning_count = text->count;
}

static struct bytes part_of(const struct delivery_text *text, enum token_stream_part part) {
    size_t split = text->reasoning_count;
    return part == TOKEN_STREAM_REASONING ? (struct bytes){text->text, split}
                                          : (struct bytes){text->text + split, text->count - split};
}

struct delivery_text delivery_flush(struct gateway *gateway, struct request *request) {
    struct delivery_text text = delivery_open(gateway, 3 * TOKEN_STREAM_HELD_MAX);
    if (gateway->options.tokenizer && !request->answered.flushed)
        token_stream_finish(&request->answered.words, delivery_add, &text);
    request->answered.flushed = true;
    return text;
}

/* ---- in a stream ---- */

struct delivery_event { /* arguments of the reply_writers below */
    const struct request *request;
    const struct api_piece *piece;
    const char *finish;
};

static void write_role(struct json_writer *writer, const void *context) {
    const struct request *request = ((const struct delivery_event *)context)->request;
    api_response_role(writer, &request->asked.answer, request->index,
                      request->asked.mode == TOKEN_STREAM_IN_REASONING);
}

static void write_delta(struct json_writer *writer, const void *context) {
    const struct delivery_event *event = context;
    api_response_delta(writer, &event->request->asked.answer, event->request->index, event->piece);
}

static void write_finish(struct json_writer *writer, const void *context) {
    const struct delivery_event *event = context;
    api_response_finish(writer, &event->request->asked.answer, event->request->index,
                        event->finish);
}

static void write_keep_alive(struct json_writer *writer, const void *context) {
    const struct delivery_event *event = context;
    json_writer_text(writer, event->request->asked.stream ? API_RESPONSE_KEEP_ALIVE : "\n");
}

static void say(struct gateway *gateway, reply_writer *write, const struct delivery_event *event) {
    enum status status = reply_data(gateway, event->request, write, event);
    check(status == STATUS_OK);
}

static void say_piece(struct gateway *gateway, const struct request *request,
                      const struct api_piece *piece) {
    struct delivery_event event = {.request = request, .piece = piece};
    bool tokens = piece->tokens && piece->to > piece->from;
    if (piece->text.count || tokens) say(gateway, write_delta, &event);
}

static void begin(struct gateway *gateway, struct request *leader) {
    if (leader->owed.begun) return;
    enum status status = reply_begin(gateway, leader);
    check(status == STATUS_OK);
}

void delivery_start(struct gateway *gateway, struct request *request) {
    const struct answer_text *prompt = &request->answered.text;
    struct delivery_event event = {.request = request};
    begin(gateway, request->leader);
    request_keep_alive(gateway, request->leader, MACHINE_NEVER);
    if (request->owed.spoken) return;
    request->owed.spoken = true;
    if (request->asked.answer.endpoint == API_CHAT) say(gateway, write_role, &event);
    if (prompt->count == 0) return;
    arena_clear(&gateway->scratch);
    struct json_writer writer = {.out = arena_take(&gateway->scratch, prompt->count),
                                 .room = prompt->count};
    check(writer.out); /* bounded when the request came */
    answer_text_write(prompt, 0, prompt->count, false, &writer);
    struct api_piece echo = {.part = TOKEN_STREAM_CONTENT, .text = {writer.out, writer.count}};
    say_piece(gateway, request, &echo);
}

size_t delivery_start_bytes_max(const struct request *request) {
    return request->owed.spoken ? 0 : REPLY_FRAME_BYTES + request->answered.text.escaped_count;
}

void delivery_say(struct gateway *gateway, const struct request *request,
                  const struct delivery_text *text, const struct token_list *tokens) {
    uint32_t split = tokens ? tokens->reasoning_count : 0, count = tokens ? tokens->count : 0;
    struct api_piece reasoning = {.part = TOKEN_STREAM_REASONING,
                                  .text = part_of(text, TOKEN_STREAM_REASONING),
                                  .tokens = tokens,
                                  .to = split};
    struct api_piece content = {.part = TOKEN_STREAM_CONTENT,
                                .text = part_of(text, TOKEN_STREAM_CONTENT),
                                .tokens = tokens,
                                .from = split,
                                .to = count};
    say_piece(gateway, request, &reasoning);
    say_piece(gateway, request, &content);
}

void delivery_say_echo(struct gateway *gateway, const struct request *request,
                       const struct token_list *echoed) {
    struct api_piece piece = {.part = TOKEN_STREAM_CONTENT, .echoed = echoed};
    struct delivery_event event = {.request = request, .piece = &piece};
    say(gateway, write_delta, &event);
}

void delivery_say_finish(struct gateway *gateway, const struct request *request,
                         const char *finish) {
    struct delivery_event event = {.request = request, .finish = finish};
    say(gateway, write_finish, &event);
}

/* Once its head has gone out, an error has no status any more, and a receipt no header. */
static bool may_begin(const struct gateway *gateway, const struct request *leader) {
    if (leader->asked.stream) return true;
    for (uint32_t i = 0; i < leader->choice_count; i++) {
        const struct request_placing *placing = &leader->choices[i]->placing;
        if (placing->losses || placing->retries || placing->refusals) return false;
    }
    return fleet_serves(&gateway->fleet) && !gateway->draining && !leader->owed.failed &&
           !leader->asked.wants_receipt;
}

enum status delivery_keep_alive(struct gateway *gateway, struct request *leader) {
    struct delivery_event event = {.request = leader};
    size_t room = sizeof(struct record_stream_begin) + REPLY_HEADERS_BYTES +
                  sizeof(struct record_stream_data) + 64;
    if (!leader->owed.begun && !may_begin(gateway, leader)) return STATUS_OK;
    if (!gateway_can_put(gateway, room)) return STATUS_FULL;
    begin(gateway, leader);
    say(gateway, write_keep_alive, &event);
    return STATUS_OK;
}

/* ---- in a whole answer ---- */

bool delivery_has_room(const struct gateway *gateway, const struct request *request, size_t more) {
    const struct request_answered *answered = &request->answered;
    size_t bytes = answered->text.escaped_count + answered->tokens_json_bytes + more;
    uint32_t choices = request->leader->choice_count;
    return bytes <= reply_text_bytes_max(gateway, choices) / choices;
}

static bool gather(struct gateway *gateway, struct request *request, struct bytes text) {
    return delivery_has_room(gateway, request, json_writer_escaped_count(text)) &&
           answer_text_add(&request->answered.text, &request->arena, text);
}

bool delivery_gather(struct gateway *gateway, struct request *request,
                     const struct delivery_text *text) {
    struct answer_text *whole = &request->answered.text;
    struct bytes reasoning = part_of(text, TOKEN_STREAM_REASONING);
    bool fits = gather(gateway, request, reasoning);
    if (reasoning.count) whole->reasoning_count = whole->count;
    return fits && gather(gateway, request, part_of(text, TOKEN_STREAM_CONTENT));
}
