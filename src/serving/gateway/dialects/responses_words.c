/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/responses_words.h"

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"
#include "serving/gateway/api/answer_walk.h"
#include "serving/gateway/api/api_tokens.h"
#include "serving/gateway/dialects/responses_reader.h"
#include "serving/gateway/dialects/text_input.h"

enum item_kind { ITEM_NONE, ITEM_REASONING, ITEM_MESSAGE, ITEM_CALL }; /* dialect_place.open */

struct item {
    enum item_kind kind;
    uint32_t index;                 /* position in the output */
    const char *status;             /* "in_progress", "completed", "incomplete" */
    const struct answer_text *text; /* reasoning, messages: bytes [from, to); NULL: none */
    size_t from, to;
    struct bytes call_id, name;
    const struct answer_text *arguments; /* NULL: none yet */
    const struct token_list *tokens;     /* messages: [token_from, token_to); NULL: none */
    uint32_t token_from, token_to;
};

/* ---- parts of items ---- */

/* The client's name for the tool of a call; NULL: the same as the model's. */
static const struct tool_alias *alias_of(const struct api_answer *answer, const struct item *item) {
    return item->kind == ITEM_CALL ? tool_alias_find(&answer->aliases, item->name) : NULL;
}

static bool responses_words_takes_text(const struct api_answer *answer, const struct item *item) {
    const struct tool_alias *alias = alias_of(answer, item);
    return alias && alias->takes_text;
}

/* Writes an id with a prefix, such as "rs_…": of the item, or of the response. */
static void responses_words_write_id(struct json_writer *writer, const struct api_answer *answer,
                                     const struct item *item) {
    static const char *const prefixes[] = {"resp", "rs", "msg", "fc"};
    json_writer_print(writer, "\"%s_%016lx%016lx",
                      responses_words_takes_text(answer, item) ? "ctc" : prefixes[item->kind],
                      answer->id.high, answer->id.low);
    if (item->kind) json_writer_print(writer, "%04x", item->index);
    json_writer_text(writer, "\"");
}

/* Writes the log probabilities of a message's tokens. */
static void responses_words_write_logprobs(struct json_writer *writer,
                                           const struct api_answer *answer,
                                           const struct item *item) {
    if (item->tokens && answer->logprobs)
        api_tokens_logprobs(writer, answer->tokenizer, item->tokens, item->token_from,
                            item->token_to);
    else
        json_writer_text(writer, "[]");
}

static void responses_words_write_text(struct json_writer *writer, const struct item *item) {
    json_writer_text(writer, "\"");
    if (item->text) answer_text_write(item->text, item->from, item->to, true, writer);
    json_writer_text(writer, "\"");
}

/* Writes the arguments of a call, or the input of a text tool. */
static void write_arguments(struct json_writer *writer, const struct answer_text *text,
                            bool takes_text) {
    json_writer_text(writer, "\"");
    if (text && takes_text)
        text_input_write(text, writer);
    else if (text)
        answer_text_write(text, 0, text->count, true, writer);
    json_writer_text(writer, "\"");
}

/* Writes the only part of a reasoning's or message's content. */
static void responses_words_write_part(struct json_writer *writer, const struct api_answer *answer,
                                       const struct item *item) {
    bool reasons = item->kind == ITEM_REASONING;
    json_writer_print(writer,
                      "{\"type\":\"%s\",\"text\":", reasons ? "reasoning_text" : "output_text");
    responses_words_write_text(writer, item);
    if (!reasons) {
        json_writer_text(writer, ",\"annotations\":[],\"logprobs\":");
        responses_words_write_logprobs(writer, answer, item);
    }
    json_writer_text(writer, "}");
}

/* Writes a call, starting after its id. */
static void responses_words_write_call(struct json_writer *writer, const struct api_answer *answer,
                                       const struct item *item) {
    const struct tool_alias *alias = alias_of(answer, item);
    bool takes_text = alias && alias->takes_text;
    struct bytes name = alias ? alias->own : item->name;
    json_writer_print(writer, ",\"call_id\":\"%.*s\",\"name\":\"%.*s\"", PRINT_BYTES(item->call_id),
                      PRINT_BYTES(name));
    if (alias && alias->namespace.count)
        json_writer_print(writer, ",\"namespace\":\"%.*s\"", PRINT_BYTES(alias->namespace));
    json_writer_text(writer, takes_text ? ",\"input\":" : ",\"arguments\":");
    write_arguments(writer, item->arguments, takes_text);
    json_writer_text(writer, "}");
}

static void write_sealed(struct json_writer *writer, const struct item *item) {
    json_writer_text(writer, ",\"encrypted_content\":\"" RESPONSES_READER_SEAL);
    answer_text_write(item->text, item->from, item->to, true, writer);
    json_writer_text(writer, "\"");
}

/* Writes an item. `opens`: it has no content yet. */
static void write_item(struct json_writer *writer, const struct api_answer *answer,
                       const struct item *item, bool opens) {
    static const char *const types[] = {"", "reasoning", "message", "function_call"};
    json_writer_text(writer, "{\"id\":");
    responses_words_write_id(writer, answer, item);
    json_writer_print(writer, ",\"type\":\"%s\",\"status\":\"%s\"",
                      responses_words_takes_text(answer, item) ? "custom_tool_call"
                                                               : types[item->kind],
                      item->status);
    if (item->kind == ITEM_CALL) {
        responses_words_write_call(writer, answer, item);
        return;
    }
    if (item->kind == ITEM_REASONING && answer->seals_reasoning && !opens)
        write_sealed(writer, item);
    json_writer_text(writer, item->kind == ITEM_REASONING
                                 ? ",\"summary\":[],\"content\":["
                                 : ",\"role\":\"assistant\",\"content\":[");
    if (!opens) responses_words_write_part(writer, answer, item);
    json_writer_text(writer, "]}");
}

/* ---- the response ---- */

static bool responses_words_is_whole(enum api_finish finish) {
    return finish != API_FINISH_LENGTH && finish != API_FINISH_CUT;
}

static struct item item_of(const struct api_choice *choice, const struct answer_walk_block *block,
                           uint32_t index) {
    static const enum item_kind kinds[TOKEN_STREAM_PART_COUNT] = {
        [TOKEN_STREAM_REASONING] = ITEM_REASONING,
        [TOKEN_STREAM_CONTENT] = ITEM_MESSAGE,
        [TOKEN_STREAM_CALL] = ITEM_CALL,
    };
    struct item item = {.kind = kinds[block->part], .index = index, .status = "completed"};
    if (block->last && !responses_words_is_whole(choice->finish)) item.status = "incomplete";
    if (item.kind == ITEM_CALL) {
        item.call_id = block->call->id;
        item.name = block->call->name;
        item.arguments = &block->call->arguments;
        return item;
    }
    item.text = choice->text;
    item.from = block->from;
    item.to = block->to;
    if (item.kind == ITEM_MESSAGE) item.tokens = choice->tokens;
    item.token_from = block->token_from;
    item.token_to = block->token_to;
    return item;
}

static void write_output(struct json_writer *writer, const struct api_answer *answer,
                         const struct api_choice *choice) {
    struct answer_walk walk = answer_walk_open(choice);
    struct answer_walk_block block;
    for (uint32_t index = 0; answer_walk_next(&walk, &block); index++) {
        struct item item = item_of(choice, &block, index);
        if (index) json_writer_text(writer, ",");
        write_item(writer, answer, &item, false);
    }
}

static void responses_words_write_usage(struct json_writer *writer, const struct api_usage *usage) {
    json_writer_print(writer,
                      "{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u},"
                      "\"output_tokens\":%u,\"output_tokens_details\":{\"reasoning_tokens\":%u},"
                      "\"total_tokens\":%lu}",
                      usage->prompt_tokens, usage->prompt_hit_tokens, usage->completion_tokens,
                      usage->reasoning_tokens,
                      (uint64_t)usage->prompt_tokens + usage->completion_tokens);
}

struct response {
    const char *status;
    const char *incomplete;         /* reason of an incomplete response; NULL: it is complete */
    const char *code, *message;     /* code and message of an error; NULL: none */
    const struct api_choice *whole; /* the choice that is the output; NULL: no output */
    const struct api_usage *usage;  /* NULL: none */
};

static struct response response_of(const struct api_choice *whole, const struct api_usage *usage) {
    struct response response = {.status = "completed", .whole = whole, .usage = usage};
    if (whole->finish == API_FINISH_LENGTH) {
        response.status = "incomplete";
        response.incomplete = "max_output_tokens";
    }
    if (whole->finish == API_FINISH_CUT) {
        response.status = "failed";
        response.code = "server_error";
        response.message = "The answer broke off: the server could not go on with it.";
    }
    return response;
}

static void write_response(struct json_writer *writer, const struct api_answer *answer,
                           const struct response *response) {
    json_writer_text(writer, "{\"id\":");
    responses_words_write_id(writer, answer, &(struct item){0});
    json_writer_print(writer,
                      ",\"object\":\"response\",\"created_at\":%ld,\"status\":\"%s\",\"error\":",
                      answer->created, response->status);
    if (response->message) {
        json_writer_print(writer, "{\"code\":\"%s\",\"message\":", response->code);
        utf8_write_repaired(writer, bytes_of(response->message)); /* quotes clients' text */
        json_writer_text(writer, "}");
    } else {
        json_writer_text(writer, "null");
    }
    if (response->incomplete)
        json_writer_print(writer, ",\"incomplete_details\":{\"reason\":\"%s\"}",
                          response->incomplete);
    else
        json_writer_text(writer, ",\"incomplete_details\":null");
    json_writer_print(writer, ",\"model\":\"%.*s\",", PRINT_BYTES(answer->model));
    json_writer_bytes(writer, answer->reported);
    json_writer_text(writer, "\"truncation\":\"disabled\","
                             "\"background\":false,\"store\":false,\"previous_response_id\":null,"
                             "\"output\":[");
    if (response->whole) write_output(writer, answer, response->whole);
    json_writer_text(writer, "],\"usage\":");
    if (response->usage)
        responses_words_write_usage(writer, response->usage);
    else
        json_writer_text(writer, "null");
    json_writer_text(writer, "}");
}

void responses_words_whole(struct json_writer *writer, const struct api_answer *answer,
                           const struct api_choice *choices, size_t choice_count,
                           const struct api_usage *usage) {
    check(choice_count == 1);
    struct response response = response_of(choices, usage);
    write_response(writer, answer, &response);
}

/* ---- events ---- */

struct teller {
    struct json_writer *writer;
    const struct api_answer *answer;
    struct dialect_place *place;
};

/* Writes event: NAME and data: {"type":"NAME","sequence_number":…, up to the members. */
static void responses_words_begin_event(const struct teller *teller, const char *name) {
    json_writer_print(teller->writer, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%u",
                      name, name, teller->place->events++);
}

static void responses_words_end_event(const struct teller *teller) {
    json_writer_text(teller->writer, "}\n\n");
}

static void write_response_event(const struct teller *teller, const char *name,
                                 const struct response *response) {
    responses_words_begin_event(teller, name);
    json_writer_text(teller->writer, ",\"response\":");
    write_response(teller->writer, teller->answer, response);
    responses_words_end_event(teller);
}

/* Writes an event about an item as a whole. */
static void write_item_event(const struct teller *teller, const char *name, const struct item *item,
                             bool opens) {
    responses_words_begin_event(teller, name);
    json_writer_print(teller->writer, ",\"output_index\":%u,\"item\":", item->index);
    write_item(teller->writer, teller->answer, item, opens);
    responses_words_end_event(teller);
}

/* Begins an event about an item's part: its name, item_id, output_index and, except for calls,
 * content_index. */
static void begin_inner_event(const struct teller *teller, const char *name,
                              const struct item *item) {
    responses_words_begin_event(teller, name);
    json_writer_text(teller->writer, ",\"item_id\":");
    responses_words_write_id(teller->writer, teller->answer, item);
    json_writer_print(teller->writer, ",\"output_index\":%u", item->index);
    if (item->kind != ITEM_CALL) json_writer_text(teller->writer, ",\"content_index\":0");
}

static void write_part_event(const struct teller *teller, const char *name,
                             const struct item *item) {
    begin_inner_event(teller, name, item);
    json_writer_text(teller->writer, ",\"part\":");
    responses_words_write_part(teller->writer, teller->answer, item);
    responses_words_end_event(teller);
}

static const char *const delta_names[] = {
    [ITEM_REASONING] = "response.reasoning_text.delta",
    [ITEM_MESSAGE] = "response.output_text.delta",
    [ITEM_CALL] = "response.function_call_arguments.delta",
};
static const char *const done_names[] = {
    [ITEM_REASONING] = "response.reasoning_text.done",
    [ITEM_MESSAGE] = "response.output_text.done",
    [ITEM_CALL] = "response.function_call_arguments.done",
};

/* ---- items in a stream ---- */

/* The open item, with all its content so far. */
static struct item open_item(const struct dialect_place *place, const struct api_choice *whole) {
    struct answer_walk walk = answer_walk_open(whole);
    struct answer_walk_block block;
    bool found = true;
    for (uint32_t i = 0; i < place->blocks && found; i++)
        found = answer_walk_next(&walk, &block);
    check(place->blocks > 0 && found);
    return item_of(whole, &block, place->blocks - 1);
}

/* Sends the input of a text tool at its end, because the model's arguments must be decoded
 * first. */
static void responses_words_close_text_call(const struct teller *teller, const struct item *item) {
    static const char *const names[] = {"delta", "input"};
    for (int i = 0; i < 2; i++) {
        begin_inner_event(teller,
                          i ? "response.custom_tool_call_input.done"
                            : "response.custom_tool_call_input.delta",
                          item);
        json_writer_print(teller->writer, ",\"%s\":", names[i]);
        write_arguments(teller->writer, item->arguments, true);
        responses_words_end_event(teller);
    }
}

static void write_end(const struct teller *teller, const struct item *item) {
    const struct tool_alias *alias = alias_of(teller->answer, item);
    struct bytes name = alias ? alias->own : item->name;
    begin_inner_event(teller, done_names[item->kind], item);
    if (item->kind == ITEM_CALL) {
        json_writer_print(teller->writer, ",\"name\":\"%.*s\",\"arguments\":", PRINT_BYTES(name));
        write_arguments(teller->writer, item->arguments, false);
    } else {
        json_writer_text(teller->writer, ",\"text\":");
        responses_words_write_text(teller->writer, item);
    }
    if (item->kind == ITEM_MESSAGE) {
        json_writer_text(teller->writer, ",\"logprobs\":");
        responses_words_write_logprobs(teller->writer, teller->answer, item);
    }
    responses_words_end_event(teller);
}

static void close_item(const struct teller *teller, const struct api_choice *whole,
                       const char *status) {
    struct dialect_place *place = teller->place;
    if (place->open == ITEM_NONE) return;
    struct item item = open_item(place, whole);
    item.status = status;
    if (responses_words_takes_text(teller->answer, &item))
        responses_words_close_text_call(teller, &item);
    else
        write_end(teller, &item);
    if (item.kind != ITEM_CALL) write_part_event(teller, "response.content_part.done", &item);
    write_item_event(teller, "response.output_item.done", &item, false);
    place->open = ITEM_NONE;
}

/* Begins an item. `piece` begins the call if it is one. */
static void responses_words_begin_item(const struct teller *teller, enum item_kind kind,
                                       const struct api_piece *piece,
                                       const struct api_choice *whole) {
    struct dialect_place *place = teller->place;
    close_item(teller, whole, "completed");
    struct item item = {.kind = kind, .index = place->blocks++, .status = "in_progress"};
    place->open = kind;
    if (kind == ITEM_MESSAGE) place->reported = open_item(place, whole).token_from;
    if (kind == ITEM_CALL) {
        item.call_id = piece->call_id;
        item.name = piece->text;
    }
    write_item_event(teller, "response.output_item.added", &item, true);
    if (kind != ITEM_CALL) write_part_event(teller, "response.content_part.added", &item);
}

/* Returns an item with the tokens that a delta reports: all tokens of the message that no earlier
 * delta reported, if they are kept. */
static struct item reported_tokens(const struct teller *teller, const struct api_piece *piece,
                                   const struct api_choice *whole) {
    struct dialect_place *place = teller->place;
    struct item item = {.kind = (enum item_kind)place->open, .index = place->blocks - 1};
    if (item.kind != ITEM_MESSAGE || !piece->tokens) return item;
    item.tokens = piece->tokens;
    item.token_from = piece->from;
    item.token_to = piece->to;
    if (whole->tokens->count < piece->to) return item;
    item.tokens = whole->tokens;
    item.token_from = (uint32_t)place->reported;
    item.token_to = whole->tokens->count - piece->tokens->count + piece->to;
    place->reported = item.token_to;
    return item;
}

static void responses_words_write_delta(const struct teller *teller, const struct api_piece *piece,
                                        const struct api_choice *whole) {
    const struct item item = reported_tokens(teller, piece, whole);
    begin_inner_event(teller, delta_names[item.kind], &item);
    json_writer_print(teller->writer, ",\"delta\":\"%.*s\"", PRINT_BYTES(piece->text));
    if (item.kind == ITEM_MESSAGE) {
        json_writer_text(teller->writer, ",\"logprobs\":");
        responses_words_write_logprobs(teller->writer, teller->answer, &item);
    }
    responses_words_end_event(teller);
}

/* Writes a piece. Tokens without text begin no item. Those before a message are reported with its
 * first text. */
static void responses_words_write_piece(const struct teller *teller, const struct api_piece *piece,
                                        const struct api_choice *whole) {
    static const enum item_kind kinds[TOKEN_STREAM_PART_COUNT] = {
        [TOKEN_STREAM_REASONING] = ITEM_REASONING,
        [TOKEN_STREAM_CONTENT] = ITEM_MESSAGE,
        [TOKEN_STREAM_CALL] = ITEM_CALL,
        [TOKEN_STREAM_ARGUMENTS] = ITEM_CALL,
    };
    enum item_kind kind = kinds[piece->part];
    bool open = piece->part != TOKEN_STREAM_CALL && teller->place->open == kind;
    bool reports = kind == ITEM_MESSAGE && open && piece->tokens && teller->answer->logprobs;
    if (piece->text.count == 0 && !reports) return;
    if (!open) responses_words_begin_item(teller, kind, piece, whole);
    if (piece->part == TOKEN_STREAM_CALL) return;
    if (kind == ITEM_CALL) {
        struct item item = open_item(teller->place, whole);
        if (responses_words_takes_text(teller->answer, &item)) return;
    }
    responses_words_write_delta(teller, piece, whole);
}

/* ---- the end ---- */

static void responses_words_write_done(const struct teller *teller, const struct api_event *event) {
    struct response response = response_of(event->whole, &event->usage);
    char name[32];
    format_text(name, sizeof name, "response.%s", response.status);
    responses_words_begin_event(teller, name);
    json_writer_text(teller->writer, ",\"response\":");
    write_response(teller->writer, teller->answer, &response);
    if (event->receipt.count) {
        json_writer_text(teller->writer, ",\"receipt\":");
        json_writer_bytes(teller->writer, event->receipt);
    }
    responses_words_end_event(teller);
}

/* Codes of OpenAI's API that clients look for. */
static const char *code_of(const struct api_error *error) {
    static const char too_long[] = "context_length_exceeded";
    if (error->code && !strcmp(error->code, too_long)) return too_long;
    return error->http_status == 429 ? "rate_limit_exceeded" : "server_error";
}

static void responses_words_write_failed(const struct teller *teller,
                                         const struct api_error *error) {
    struct response response = {
        .status = "failed", .code = code_of(error), .message = error->message};
    if (teller->place->events == 0) {
        struct response created = {.status = "in_progress"};
        write_response_event(teller, "response.created", &created);
    }
    write_response_event(teller, "response.failed", &response);
}

void responses_words_event(struct json_writer *writer, const struct api_answer *answer,
                           struct dialect_place *place, const struct api_event *event) {
    struct teller teller = {writer, answer, place};
    struct response created = {.status = "in_progress"};
    switch (event->kind) {
    case API_EVENT_BEGIN:
        write_response_event(&teller, "response.created", &created);
        write_response_event(&teller, "response.in_progress", &created);
        return;
    case API_EVENT_PIECE:
        responses_words_write_piece(&teller, &event->piece, event->whole);
        return;
    case API_EVENT_FINISH:
        close_item(&teller, event->whole,
                   responses_words_is_whole(event->finish) ? "completed" : "incomplete");
        return;
    case API_EVENT_DONE:
        responses_words_write_done(&teller, event);
        return;
    case API_EVENT_FAILED:
        responses_words_write_failed(&teller, event->error);
    }
}
