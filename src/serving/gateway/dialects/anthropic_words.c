/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/anthropic_words.h"

#include "base/check.h"
#include "base/utf8.h"
#include "serving/gateway/api/answer_walk.h"

enum block { BLOCK_NONE, BLOCK_THINKING, BLOCK_TEXT, BLOCK_CALL }; /* dialect_place.open */

/* ---- parts of whole answers and streams ---- */

/* Writes the message object up to its content array. */
static void anthropic_words_write_head(struct json_writer *writer,
                                       const struct api_answer *answer) {
    json_writer_print(writer,
                      "{\"id\":\"msg_%016lx%016lx\",\"type\":\"message\",\"role\":\"assistant\","
                      "\"model\":\"%.*s\",\"content\":[",
                      answer->id.high, answer->id.low, PRINT_BYTES(answer->model));
}

static void write_stop(struct json_writer *writer, enum api_finish finish, struct bytes stop) {
    /* "pause_turn" asks the client to send an incomplete answer back to have it continued. */
    static const char *const reasons[] = {
        [API_FINISH_STOP] = "\"end_turn\"",     [API_FINISH_STOP_STRING] = "\"stop_sequence\"",
        [API_FINISH_LENGTH] = "\"max_tokens\"", [API_FINISH_CALLS] = "\"tool_use\"",
        [API_FINISH_CUT] = "\"pause_turn\"",    [API_FINISH_NONE] = "null",
    };
    json_writer_print(writer, "\"stop_reason\":%s,\"stop_sequence\":", reasons[finish]);
    if (finish == API_FINISH_STOP_STRING)
        json_writer_string(writer, stop);
    else
        json_writer_text(writer, "null");
}

static void anthropic_words_write_usage(struct json_writer *writer, const struct api_usage *usage) {
    json_writer_print(writer,
                      "\"usage\":{\"input_tokens\":%u,\"cache_creation_input_tokens\":0,"
                      "\"cache_read_input_tokens\":%u,\"output_tokens\":%u}",
                      usage->prompt_tokens - usage->prompt_hit_tokens, usage->prompt_hit_tokens,
                      usage->completion_tokens);
}

static void anthropic_words_begin_call(struct json_writer *writer, struct bytes id,
                                       struct bytes name) {
    json_writer_print(writer, "{\"type\":\"tool_use\",\"id\":\"%.*s\",\"name\":\"%.*s\",\"input\":",
                      PRINT_BYTES(id), PRINT_BYTES(name));
}

/* ---- whole answers ---- */

static void anthropic_words_write_call(struct json_writer *writer, const struct answer_call *call) {
    anthropic_words_begin_call(writer, call->id, call->name);
    answer_calls_write_object(writer, &call->arguments);
    json_writer_text(writer, "}");
}

static void write_block(struct json_writer *writer, const struct answer_text *text,
                        const struct answer_walk_block *block) {
    if (block->part == TOKEN_STREAM_CALL) {
        anthropic_words_write_call(writer, block->call);
        return;
    }
    bool thinks = block->part == TOKEN_STREAM_REASONING;
    json_writer_text(writer, thinks ? "{\"type\":\"thinking\",\"thinking\":\""
                                    : "{\"type\":\"text\",\"text\":\"");
    answer_text_write(text, block->from, block->to, true, writer);
    json_writer_text(writer, thinks ? "\",\"signature\":\"\"}" : "\"}");
}

static void write_content(struct json_writer *writer, const struct api_choice *choice) {
    struct answer_walk walk = answer_walk_open(choice);
    struct answer_walk_block block;
    for (bool any = false; answer_walk_next(&walk, &block); any = true) {
        if (any) json_writer_text(writer, ",");
        write_block(writer, choice->text, &block);
    }
}

void anthropic_words_whole(struct json_writer *writer, const struct api_answer *answer,
                           const struct api_choice *choices, size_t choice_count,
                           const struct api_usage *usage) {
    check(choice_count == 1);
    anthropic_words_write_head(writer, answer);
    write_content(writer, choices);
    json_writer_text(writer, "],");
    write_stop(writer, choices->finish, choices->stop);
    json_writer_text(writer, ",");
    anthropic_words_write_usage(writer, usage);
    json_writer_text(writer, "}");
}

/* ---- streams ---- */

/* Writes event: NAME and data: {"type":"NAME", up to the members. */
static void anthropic_words_begin_event(struct json_writer *writer, const char *name) {
    json_writer_print(writer, "event: %s\ndata: {\"type\":\"%s\"", name, name);
}

static void anthropic_words_end_event(struct json_writer *writer) {
    json_writer_text(writer, "}\n\n");
}

static void begin_block_event(struct json_writer *writer, const struct dialect_place *place,
                              const char *name) {
    anthropic_words_begin_event(writer, name);
    json_writer_print(writer, ",\"index\":%u", place->blocks - 1);
}

static void anthropic_words_write_delta(struct json_writer *writer,
                                        const struct dialect_place *place, const char *type,
                                        const char *member, struct bytes text) {
    begin_block_event(writer, place, "content_block_delta");
    json_writer_print(writer, ",\"delta\":{\"type\":\"%s\",\"%s\":\"%.*s\"}}\n\n", type, member,
                      PRINT_BYTES(text));
}

static void close_block(struct json_writer *writer, struct dialect_place *place) {
    if (place->open == BLOCK_NONE) return;
    if (place->open == BLOCK_THINKING)
        anthropic_words_write_delta(writer, place, "signature_delta", "signature",
                                    BYTES_LITERAL(""));
    begin_block_event(writer, place, "content_block_stop");
    anthropic_words_end_event(writer);
    place->open = BLOCK_NONE;
}

static void open_block(struct json_writer *writer, struct dialect_place *place, enum block block,
                       const struct api_piece *piece) {
    close_block(writer, place);
    place->open = block;
    place->blocks++;
    begin_block_event(writer, place, "content_block_start");
    json_writer_text(writer, ",\"content_block\":");
    if (block == BLOCK_THINKING) {
        json_writer_text(writer, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    } else if (block == BLOCK_TEXT) {
        json_writer_text(writer, "{\"type\":\"text\",\"text\":\"\"}");
    } else {
        anthropic_words_begin_call(writer, piece->call_id, piece->text);
        json_writer_text(writer, "{}}");
    }
    anthropic_words_end_event(writer);
}

static void anthropic_words_write_piece(struct json_writer *writer, struct dialect_place *place,
                                        const struct api_piece *piece) {
    if (piece->text.count == 0) return; /* this dialect does not report tokens without text */
    switch (piece->part) {
    case TOKEN_STREAM_REASONING:
        if (place->open != BLOCK_THINKING) open_block(writer, place, BLOCK_THINKING, piece);
        anthropic_words_write_delta(writer, place, "thinking_delta", "thinking", piece->text);
        return;
    case TOKEN_STREAM_CALL:
        open_block(writer, place, BLOCK_CALL, piece);
        return;
    case TOKEN_STREAM_ARGUMENTS:
        anthropic_words_write_delta(writer, place, "input_json_delta", "partial_json", piece->text);
        return;
    default:
        if (place->open != BLOCK_TEXT) open_block(writer, place, BLOCK_TEXT, piece);
        anthropic_words_write_delta(writer, place, "text_delta", "text", piece->text);
    }
}

static void anthropic_words_write_start(struct json_writer *writer, const struct api_answer *answer,
                                        const struct api_usage *usage) {
    anthropic_words_begin_event(writer, "message_start");
    json_writer_text(writer, ",\"message\":");
    anthropic_words_write_head(writer, answer);
    json_writer_text(writer, "],");
    write_stop(writer, API_FINISH_NONE, BYTES_LITERAL(""));
    json_writer_text(writer, ",");
    anthropic_words_write_usage(writer, usage);
    json_writer_text(writer, "}");
    anthropic_words_end_event(writer);
}

static void anthropic_words_write_done(struct json_writer *writer, const struct api_event *event) {
    anthropic_words_begin_event(writer, "message_delta");
    json_writer_text(writer, ",\"delta\":{");
    write_stop(writer, event->finish, event->stop);
    json_writer_text(writer, "},");
    anthropic_words_write_usage(writer, &event->usage);
    anthropic_words_end_event(writer);
    anthropic_words_begin_event(writer, "message_stop");
    if (event->receipt.count) {
        json_writer_text(writer, ",\"receipt\":");
        json_writer_bytes(writer, event->receipt);
    }
    anthropic_words_end_event(writer);
}

void anthropic_words_event(struct json_writer *writer, const struct api_answer *answer,
                           struct dialect_place *place, const struct api_event *event) {
    switch (event->kind) {
    case API_EVENT_BEGIN:
        anthropic_words_write_start(writer, answer, &event->usage);
        return;
    case API_EVENT_PIECE:
        anthropic_words_write_piece(writer, place, &event->piece);
        return;
    case API_EVENT_FINISH:
        close_block(writer, place);
        return;
    case API_EVENT_DONE:
        anthropic_words_write_done(writer, event);
        return;
    case API_EVENT_FAILED:
        json_writer_text(writer, "event: error\ndata: ");
        anthropic_words_error(writer, event->error);
        json_writer_text(writer, "\n\n");
    }
}

/* ---- errors and counts ---- */

static const char *anthropic_words_error_type(const struct api_error *error) {
    switch (error->http_status) {
    case 401:
        return "authentication_error";
    case 402:
        return "billing_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 429:
        return "rate_limit_error";
    case 503:
        return "overloaded_error";
    default:
        return error->http_status >= 500 ? "api_error" : "invalid_request_error";
    }
}

void anthropic_words_error(struct json_writer *writer, const struct api_error *error) {
    json_writer_print(writer, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":",
                      anthropic_words_error_type(error));
    utf8_write_repaired(writer, bytes_of(error->message)); /* the message quotes clients' text */
    json_writer_text(writer, "}}");
}

void anthropic_words_length(struct api_error *error, const struct api_length *length) {
    api_error_set(error, 400, length->param, "context_length_exceeded",
                  "prompt is too long: %llu tokens > %llu maximum%s%s",
                  (unsigned long long)length->prompt_tokens,
                  (unsigned long long)length->tokens_max - 1, /* at least one is the answer's */
                  length->at_least ? "; it has at least that many" : "",
                  length->by_memory ? "; this server's KV memory holds no more" : "");
}

void anthropic_words_count(struct json_writer *writer, uint32_t prompt_tokens) {
    json_writer_print(writer, "{\"input_tokens\":%u}", prompt_tokens);
}

/* ---- models ---- */

/* Writes a model. Prompt and answer share its context. */
void anthropic_words_model(struct json_writer *writer, struct bytes name, uint64_t tokens_max) {
    json_writer_print(writer,
                      "{\"type\":\"model\",\"id\":\"%.*s\",\"display_name\":\"%.*s\","
                      "\"created_at\":\"1970-01-01T00:00:00Z\"",
                      PRINT_BYTES(name), PRINT_BYTES(name));
    if (tokens_max)
        json_writer_print(writer, ",\"max_input_tokens\":%lu,\"max_tokens\":%lu", tokens_max,
                          tokens_max);
    json_writer_text(writer, "}");
}

void anthropic_words_models(struct json_writer *writer, const struct api_model *models,
                            size_t count, uint64_t tokens_max) {
    json_writer_text(writer, "{\"data\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0) json_writer_text(writer, ",");
        anthropic_words_model(writer, models[i].name, tokens_max);
    }
    if (count)
        json_writer_print(writer,
                          "],\"has_more\":false,\"first_id\":\"%.*s\",\"last_id\":\"%.*s\"}",
                          PRINT_BYTES(models[0].name), PRINT_BYTES(models[count - 1].name));
    else
        json_writer_text(writer, "],\"has_more\":false,\"first_id\":null,\"last_id\":null}");
}
