/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/stream_writer.h"

#include "base/check.h"
#include "base/format.h"
#include "serving/gateway/reply.h"
#include "serving/gateway/request_lines.h"

/* ---- pieces of text ---- */

void stream_writer_open(struct gateway *gateway, const struct request *request, size_t room,
                        struct answer_delta *delta) {
    arena_clear(&gateway->scratch);
    delta->arena = &gateway->scratch;
    delta->text = arena_take(&gateway->scratch, room);
    check(delta->text); /* the smaller outbox has room for it several times */
    delta->text_room = room;
    delta->token_at = request->answered.output_tokens;
    delta->calls_left = !request->asked.one_call ? UINT32_MAX : request->answered.calls.count == 0;
}

static struct api_piece *stream_writer_add_piece(struct answer_delta *delta,
                                                 enum token_stream_part part) {
    struct api_piece *piece = arena_take(delta->arena, sizeof *piece);
    check(piece); /* each piece has at least a byte of text */
    *piece = (struct api_piece){.part = part,
                                .text = {delta->text + delta->text_count, 0},
                                .token_at = delta->token_at,
                                .call_id = delta->call_id};
    delta->call_id = BYTES_LITERAL("");
    if (delta->last)
        delta->last->next = piece;
    else
        delta->first = piece;
    delta->last = piece;
    delta->piece_count++;
    return piece;
}

void stream_writer_add(void *context, enum token_stream_part part, struct bytes more) {
    struct answer_delta *delta = context;
    bool call = part == TOKEN_STREAM_CALL || part == TOKEN_STREAM_CALL_ID;
    if (call && delta->calls_left == 0) delta->calls_ended = true;
    if (delta->calls_ended) return;
    if (part == TOKEN_STREAM_CALL) delta->calls_left--;
    check(more.count <= delta->text_room - delta->text_count);
    char *text = memcpy(delta->text + delta->text_count, more.data, more.count);
    if (part == TOKEN_STREAM_CALL_ID) {
        delta->call_id = (struct bytes){text, more.count};
    } else {
        struct api_piece *piece = delta->last;
        if (!piece || piece->part != part || call) piece = stream_writer_add_piece(delta, part);
        piece->text.count += more.count;
    }
    delta->text_count += more.count;
}

void stream_writer_flush(struct gateway *gateway, struct request *request,
                         struct answer_delta *delta) {
    *delta = (struct answer_delta){0};
    stream_writer_open(gateway, request, TOKEN_STREAM_HELD_MAX, delta);
    /* If a second call ended the answer, the held back text belongs to that call. */
    bool whole = request->answered.flushed || request->unreported.cause == CAUSE_ONE_CALL;
    if (gateway->options.tokenizer && !whole)
        token_stream_finish(&request->answered.words, stream_writer_add, delta);
}

/* ---- events ---- */

/* Sealed reasoning is repeated in its item and in the response. A dialect that repeats nothing
 * still repeats the input of a text tool once it is complete. */
uint32_t stream_writer_repeats(const struct request *request) {
    const struct api_answer *answer = &request->asked.answer;
    uint32_t repeats = answer->dialect->repeats;
    if (repeats == 0 && answer->aliases.count) repeats = 1;
    return repeats + (answer->seals_reasoning ? 2 : 0);
}

bool stream_writer_repeats_tokens(const struct request *request) {
    const struct api_answer *answer = &request->asked.answer;
    return request->asked.stream && answer->logprobs && answer->dialect->repeats > 0;
}

struct stream_writer_event { /* context of the reply_writer */
    struct request *request;
    const struct api_event *event;
};

static void stream_writer_write_event(struct json_writer *writer, const void *context) {
    const struct stream_writer_event *reported = context;
    const struct api_answer *answer = &reported->request->asked.answer;
    answer->dialect->write_event(writer, answer, &reported->request->unreported.place,
                                 reported->event);
}

static void stream_writer_say(struct gateway *gateway, struct request *request,
                              struct api_event *event) {
    struct api_choice whole = stream_writer_choice(request, event->finish, event->stop);
    struct stream_writer_event reported = {request, event};
    event->choice = request->index;
    if (stream_writer_repeats(request)) event->whole = &whole;
    enum status status = reply_data(gateway, request, stream_writer_write_event, &reported);
    check(status == STATUS_OK); /* otherwise the event would be written twice */
}

static void say_piece(struct gateway *gateway, struct request *request,
                      const struct api_piece *piece) {
    struct api_event event = {.kind = API_EVENT_PIECE, .piece = *piece};
    if (piece->from == piece->to) event.piece.tokens = NULL;
    if (piece->text.count == 0 && !event.piece.tokens && !piece->echoed) return;
    stream_writer_say(gateway, request, &event);
}

static void begin(struct gateway *gateway, struct request *leader) {
    if (leader->unreported.begun) return;
    enum status status = reply_begin(gateway, leader);
    check(status == STATUS_OK);
}

#define COMMENT_BYTES 64
#define AHEAD_MAX 100 /* waiting requests that are counted */

struct keep_alive { /* context of the reply_writer */
    const struct request *leader;
    const struct api_progress *progress; /* NULL: unknown */
    char comment[COMMENT_BYTES];
};

static const struct api_progress *progress_of(const struct request *request) {
    uint32_t unit = request_speaker(request);
    for (uint32_t part = 0; unit != FLEET_NONE && part < PART_COUNT; part++) {
        const struct request_binding *binding = &request->life.at[part];
        if (binding->unit == unit && binding->progress.ready_tokens) return &binding->progress;
    }
    return NULL;
}

/* Describes the wait of the first choice: its place in the queue, or how much of its prompt is
 * computed. */
static struct keep_alive describe_wait(const struct gateway *gateway,
                                       const struct request *leader) {
    struct keep_alive sent = {leader, progress_of(leader), ": keep-alive\n"};
    if (leader->life.state == REQUEST_WAITING) {
        uint32_t ahead = request_lines_before(&gateway->requests.waiting, leader, AHEAD_MAX);
        format_text(sent.comment, COMMENT_BYTES, ": waiting, %u%s ahead\n", ahead,
                    ahead == AHEAD_MAX ? " or more" : "");
    } else if (sent.progress) {
        format_text(sent.comment, COMMENT_BYTES, ": prompt %u of %u\n", sent.progress->ready_tokens,
                    sent.progress->prompt_tokens);
    }
    return sent;
}

static void write_keep_alive(struct json_writer *writer, const void *context) {
    const struct keep_alive *sent = context;
    const struct api_answer *answer = &sent->leader->asked.answer;
    const struct dialect *dialect = answer->dialect;
    bool begins = sent->progress && !sent->leader->unreported.spoken;
    if (!sent->leader->asked.stream) {
        json_writer_bytes(writer, BYTES_LITERAL("\n"));
    } else if (answer->progress && begins && dialect->write_progress) {
        dialect->write_progress(writer, answer, sent->progress);
    } else {
        if (!dialect->streams_lines) json_writer_bytes(writer, bytes_of(sent->comment));
        json_writer_bytes(writer, dialect->keep_alive);
    }
}

/* True if a response may begin before its answer is known. Afterwards an error has no HTTP status,
 * and a receipt no header. */
static bool stream_writer_may_begin(const struct gateway *gateway, const struct request *leader) {
    if (leader->asked.stream) return true;
    for (uint32_t i = 0; i < leader->choice_count; i++) {
        const struct request_placing *placing = &leader->choices[i]->placing;
        if (placing->losses || placing->retries || placing->refusals) return false;
    }
    return fleet_serves(&gateway->fleet) && !gateway->draining && !leader->unreported.failed &&
           !leader->asked.wants_receipt;
}

enum status stream_writer_keep_alive(struct gateway *gateway, struct request *leader) {
    size_t room = REPLY_BEGIN_BYTES + stream_writer_frame_bytes(leader) + COMMENT_BYTES +
                  leader->asked.answer.dialect->keep_alive.count;
    if (!leader->unreported.begun && !stream_writer_may_begin(gateway, leader)) return STATUS_OK;
    if (!gateway_can_put(gateway, room)) return STATUS_FULL;
    begin(gateway, leader);
    struct keep_alive sent = describe_wait(gateway, leader);
    enum status status = reply_data(gateway, leader, write_keep_alive, &sent);
    check(status == STATUS_OK);
    return STATUS_OK;
}

/* ---- the start of a stream ---- */

static void say_begin(struct gateway *gateway, struct request *request) {
    struct unit_work work = receipt_total(&request->answered.receipt, request->asked.prompt_tokens);
    struct api_event event = {.kind = API_EVENT_BEGIN,
                              .in_reasoning = request->asked.mode == TOKEN_STREAM_IN_REASONING,
                              .usage = {.prompt_tokens = request->asked.prompt_tokens,
                                        .prompt_hit_tokens = work.prompt_hit_tokens}};
    stream_writer_say(gateway, request, &event);
}

void stream_writer_start(struct gateway *gateway, struct request *request) {
    const struct answer_text *prompt = &request->answered.text;
    begin(gateway, request->leader);
    request_keep_alive(gateway, request->leader, MACHINE_NEVER);
    if (request->unreported.spoken) return;
    request->unreported.spoken = true;
    say_begin(gateway, request);
    if (prompt->count == 0) return;
    struct json_writer writer = {.out = arena_take(&gateway->scratch, prompt->count),
                                 .room = prompt->count};
    check(writer.out); /* its size was bounded when the request came */
    answer_text_write(prompt, 0, prompt->count, false, &writer);
    say_piece(
        gateway, request,
        &(struct api_piece){.part = TOKEN_STREAM_CONTENT, .text = {writer.out, writer.count}});
}

size_t stream_writer_frame_bytes(const struct request *request) {
    return sizeof(struct record_stream_data) + 16 + request->asked.answer.dialect->frame_bytes;
}

size_t stream_writer_reported_bytes(const struct request *request) {
    const struct api_answer *answer = &request->asked.answer;
    return answer->dialect->reports * answer->reported.count;
}

size_t stream_writer_start_bytes_max(const struct request *request) {
    if (request->unreported.spoken) return 0;
    return REPLY_BEGIN_BYTES + 2 * stream_writer_frame_bytes(request) +
           stream_writer_reported_bytes(request) + request->answered.text.escaped_count;
}

/* ---- the text of tokens ---- */

static bool keeps_text(const struct request *request) {
    return !request->asked.stream || stream_writer_repeats(request) > 0;
}

bool stream_writer_has_room(const struct gateway *gateway, const struct request *request,
                            size_t more) {
    const struct request_answered *answered = &request->answered;
    const struct api_answer *answer = &request->asked.answer;
    /* A stream may have to repeat all of the text together with new text. The frame has room for
     * two runs. */
    uint32_t once = answer->seals_reasoning ? 2 : 1;
    uint32_t times = request->asked.stream ? 2 * stream_writer_repeats(request) : once;
    uint32_t choices = request->leader->choice_count;
    uint32_t runs = answered->text.run_count > 2 ? answered->text.run_count - 2 : 0;
    size_t bytes = answered->text.escaped_count + answered->calls.escaped_count +
                   (answered->calls.count + runs) * DIALECT_CALL_BYTES +
                   answered->tokens_json_bytes + more;
    return times * bytes + stream_writer_reported_bytes(request) <=
           reply_text_bytes_max(gateway, choices) / choices;
}

static size_t repeat_bytes_max(const struct request *request) {
    const struct request_answered *answered = &request->answered;
    uint32_t items = answered->calls.count + answered->text.run_count;
    return stream_writer_repeats(request) *
           (answered->text.escaped_count + answered->calls.escaped_count +
            items * DIALECT_CALL_BYTES + answered->tokens_json_bytes);
}

static bool stream_writer_keep_text(struct gateway *gateway, struct request *request,
                                    const struct api_piece *piece) {
    struct request_answered *answered = &request->answered;
    if (!keeps_text(request)) return true;
    if (!stream_writer_has_room(gateway, request, json_writer_escaped_count(piece->text)))
        return false;
    if (piece->part == TOKEN_STREAM_ARGUMENTS)
        return answer_calls_add_arguments(&answered->calls, &request->arena, piece->text);
    return answer_text_add_part(&answered->text, &request->arena, piece->part, piece->token_at,
                                piece->text);
}

/* Makes the id of a call. Mistral's templates accept only ids of nine letters and digits. */
static struct bytes make_id(const struct request *request, char out[ANSWER_CALLS_ID_BYTES]) {
    const struct api_answer *answer = &request->asked.answer;
    bool nine = request->answered.words.calls.set->format == TOOL_FORMAT_MISTRAL;
    answer_calls_make_id(nine ? "" : answer->dialect->call_prefix, nine ? 9 : 24, answer->id,
                         request->index, request->answered.calls.count, out);
    return bytes_of(out);
}

/* Keeps a call, even in a stream, because events of arguments name their call. Makes an id if the
 * model wrote none. */
static bool keep_call(struct gateway *gateway, struct request *request, struct api_piece *piece) {
    struct request_answered *answered = &request->answered;
    char made[ANSWER_CALLS_ID_BYTES];
    struct bytes id = piece->call_id.count ? piece->call_id : make_id(request, made);
    size_t more =
        DIALECT_CALL_BYTES + json_writer_escaped_count(id) + json_writer_escaped_count(piece->text);
    answered->text.run_ended = true;
    if (!stream_writer_has_room(gateway, request, more) ||
        !answer_calls_add(&answered->calls, &request->arena, id, piece->text, answered->text.count,
                          piece->token_at))
        return false;
    piece->call_id = answered->calls.last->id;
    return true;
}

/* Sets the piece's tokens to the next turn, which ends at a change between reasoning and content.
 * False: all tokens are reported. */
static bool see_turn(const struct answer_delta *delta, struct api_piece *piece, bool *reasons) {
    piece->tokens = &delta->list;
    piece->from = piece->to = delta->reported;
    return token_list_next_turn(&delta->list, &piece->to, delta->list.count, reasons);
}

/* Sends the turns without text, which no piece reports. `before`: only those before the next turn
 * of reasoning (true) or content (false). NULL: all. */
static void say_turns(struct gateway *gateway, struct request *request, struct answer_delta *delta,
                      const bool *before) {
    struct api_piece piece = {.text = BYTES_LITERAL("")};
    bool reasons;
    while (see_turn(delta, &piece, &reasons) && !(before && reasons == *before)) {
        piece.part = reasons ? TOKEN_STREAM_REASONING : TOKEN_STREAM_CONTENT;
        delta->reported = piece.to;
        say_piece(gateway, request, &piece);
    }
}

static bool stream_writer_report_piece(struct gateway *gateway, struct request *request,
                                       struct answer_delta *delta, struct api_piece *piece) {
    bool reasons = piece->part == TOKEN_STREAM_REASONING, found;
    bool fits = piece->part == TOKEN_STREAM_CALL ? keep_call(gateway, request, piece)
                                                 : stream_writer_keep_text(gateway, request, piece);
    if (!fits || !request->asked.stream) return fits;
    say_turns(gateway, request, delta, &reasons);
    if (see_turn(delta, piece, &found)) delta->reported = piece->to;
    if (piece->part == TOKEN_STREAM_CALL || piece->part == TOKEN_STREAM_ARGUMENTS)
        piece->call = request->answered.calls.count - 1;
    say_piece(gateway, request, piece);
    return true;
}

bool stream_writer_report(struct gateway *gateway, struct request *request,
                          struct answer_delta *delta) {
    for (struct api_piece *piece = delta->first; piece; piece = piece->next)
        if (!stream_writer_report_piece(gateway, request, delta, piece)) return false;
    if (request->asked.stream) say_turns(gateway, request, delta, NULL);
    return true;
}

size_t stream_writer_bytes_max(const struct request *request, const struct answer_delta *delta) {
    /* Each turn may need an event without text. Repeated text may include the new text. */
    uint32_t repeats = stream_writer_repeats(request);
    return (delta->piece_count + delta->turn_count + 2) * stream_writer_frame_bytes(request) +
           repeat_bytes_max(request) +
           (1 + repeats) * (STREAM_WRITER_ESCAPED_PER_BYTE * delta->text_count) +
           repeats * delta->piece_count * DIALECT_CALL_BYTES;
}

void stream_writer_say_echo(struct gateway *gateway, struct request *request,
                            const struct token_list *echoed) {
    say_piece(gateway, request,
              &(struct api_piece){.part = TOKEN_STREAM_CONTENT, .echoed = echoed});
}

/* ---- the end ---- */

struct api_choice stream_writer_choice(const struct request *request, enum api_finish finish,
                                       struct bytes stop) {
    static const struct token_list none;
    const struct request_answered *answered = &request->answered;
    bool keeps = !request->asked.stream || answered->tokens_json_bytes > 0;
    return (struct api_choice){
        .text = &answered->text,
        .calls = &answered->calls,
        .echoed = answered->scored_count ? &answered->echoed : NULL,
        .tokens = keeps ? &answered->tokens : &none,
        .finish = finish,
        .stop = stop,
    };
}

void stream_writer_say_finish(struct gateway *gateway, struct request *request,
                              enum api_finish finish, struct bytes stop) {
    stream_writer_say(
        gateway, request,
        &(struct api_event){.kind = API_EVENT_FINISH, .finish = finish, .stop = stop});
}
