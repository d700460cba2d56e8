/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/chat_dialect.h"

#include "serving/gateway/api/api_constraint.h"
#include "serving/gateway/api/api_messages.h"
#include "serving/gateway/api/api_tokens.h"
#include "serving/gateway/api/api_tools.h"
#include "serving/gateway/dialects/chat_thoughts.h"
#include "serving/gateway/dialects/chat_tools.h"
#include "serving/gateway/dialects/openai_fields.h"
#include "serving/gateway/dialects/openai_words.h"
#include "serving/gateway/dialects/text_input.h"

/* An event may write two chunks: the input of a text tool's call, and the next one. */
#define CHAT_FRAME_BYTES (OPENAI_WORDS_FRAME_BYTES + ((size_t)2 << 10))

/* ---- reading ---- */

/* Reads "logprobs", a flag, and "top_logprobs", the number of alternatives. */
static bool chat_dialect_read_logprobs(struct api_reader *reader, struct api_request *out) {
    struct sampling *sampling = &out->sampling;
    bool asked = false;
    if (!api_reader_flag(reader, reader->root, "logprobs", &asked) ||
        !api_reader_integer(reader, reader->root, "top_logprobs", 0, LIMIT_TOP_LOGPROBS,
                            &sampling->top_logprobs))
        return false;
    if (asked) sampling->flags |= SAMPLING_LOGPROBS;
    if (asked || sampling->top_logprobs == 0) return true;
    return api_error_set(reader->error, 400, "top_logprobs", "invalid_value",
                         "'top_logprobs' needs 'logprobs': true.");
}

/* Decides whether the answer is a new turn of the assistant or continues its last message. */
static bool read_turn(struct api_reader *reader, struct api_request *out) {
    static const char field[] = "continue_final_message";
    bool asked = false;
    if (!api_reader_flag(reader, reader->root, "add_generation_prompt", &out->opens_turn) ||
        !api_reader_flag(reader, reader->root, field, &asked) ||
        !api_messages_continue(reader, out->messages, &out->continues))
        return false;
    if (asked && !api_messages_check_last(reader, out->messages, field)) return false;
    out->continues |= asked;
    if (!out->continues) return true;
    if (out->opens_turn && api_reader_given(reader->root, "add_generation_prompt"))
        return api_error_set(reader->error, 400, "add_generation_prompt", "invalid_value",
                             "'add_generation_prompt' contradicts a message that is continued.");
    out->opens_turn = false;
    return true;
}

static bool read_chat(struct api_reader *reader, struct api_request *out) {
    out->messages = api_reader_given(reader->root, "messages");
    if (!out->messages) return api_reader_missing(reader, "messages");
    return chat_tools_messages(reader, out->messages, &out->messages) &&
           chat_thoughts_messages(reader, out->messages, &out->messages) &&
           api_messages_check(reader, out->messages) && read_turn(reader, out) &&
           api_constraint_read(reader, out) && chat_tools_read(reader, out) &&
           chat_dialect_read_logprobs(reader, out) && openai_fields_read(reader, out);
}

/* ---- whole answers ---- */

static void chat_dialect_write_logprobs(struct json_writer *writer,
                                        const struct tokenizer *tokenizer,
                                        const struct token_list *echoed,
                                        const struct token_list *tokens, uint32_t from,
                                        uint32_t to) {
    api_tokens_chat_logprobs(writer, tokenizer, tokens, from, to);
}

static const struct openai_words_form form = {"chatcmpl", "chat.completion",
                                              "chat.completion.chunk", chat_dialect_write_logprobs};

static bool chat_dialect_takes_text(const struct api_answer *answer, struct bytes name) {
    const struct tool_alias *alias = tool_alias_find(&answer->aliases, name);
    return alias && alias->takes_text;
}

/* Writes a call up to its arguments or input, which is a string. */
static void chat_dialect_begin_call(struct json_writer *writer, const struct api_answer *answer,
                                    struct bytes id, struct bytes name) {
    bool custom = chat_dialect_takes_text(answer, name);
    const char *type = custom ? "custom" : "function";
    json_writer_print(writer, "\"id\":\"%.*s\",\"type\":\"%s\",\"%s\":{\"name\":\"%.*s\",\"%s\":\"",
                      PRINT_BYTES(id), type, type, PRINT_BYTES(name),
                      custom ? "input" : "arguments");
}

static void chat_dialect_write_call(struct json_writer *writer, const struct api_answer *answer,
                                    const struct answer_call *call) {
    chat_dialect_begin_call(writer, answer, call->id, call->name);
    if (chat_dialect_takes_text(answer, call->name))
        text_input_write(&call->arguments, writer);
    else
        answer_text_write(&call->arguments, 0, call->arguments.count, true, writer);
    json_writer_text(writer, "\"}}");
}

static void write_message(struct json_writer *writer, const struct api_answer *answer,
                          const struct api_choice *choice) {
    const struct answer_text *text = choice->text;
    const struct answer_call *first = choice->calls ? choice->calls->first : NULL;
    json_writer_text(writer, "\"message\":{\"role\":\"assistant\",\"content\":");
    if (first && answer_text_part_count(text, TOKEN_STREAM_CONTENT) == 0) {
        json_writer_text(writer, "null");
    } else {
        json_writer_text(writer, "\"");
        answer_text_write_part(text, TOKEN_STREAM_CONTENT, writer);
        json_writer_text(writer, "\"");
    }
    if (answer_text_part_count(text, TOKEN_STREAM_REASONING)) {
        json_writer_text(writer, ",\"reasoning_content\":\"");
        answer_text_write_part(text, TOKEN_STREAM_REASONING, writer);
        json_writer_text(writer, "\"");
    }
    for (const struct answer_call *call = first; call; call = call->next) {
        json_writer_text(writer, call == first ? ",\"tool_calls\":[{" : ",{");
        chat_dialect_write_call(writer, answer, call);
    }
    json_writer_text(writer, first ? "]}" : "}");
}

static void chat_dialect_write_whole(struct json_writer *writer, const struct api_answer *answer,
                                     const struct api_choice *choices, size_t choice_count,
                                     const struct api_usage *usage) {
    openai_words_whole(writer, &form, answer, choices, choice_count, usage, write_message);
}

/* ---- streams ---- */

/* Writes a piece of a call. A text tool's call is sent without input. Its whole input follows at
 * the end, because the model's arguments must be decoded first. */
static void write_call_delta(struct json_writer *writer, const struct api_answer *answer,
                             const struct api_piece *piece, bool takes_text) {
    json_writer_print(writer, "\"delta\":{\"tool_calls\":[{\"index\":%u,", piece->call);
    if (piece->part == TOKEN_STREAM_CALL)
        chat_dialect_begin_call(writer, answer, piece->call_id, piece->text);
    else if (takes_text)
        json_writer_text(writer, "\"custom\":{\"input\":\"");
    else
        json_writer_print(writer, "\"function\":{\"arguments\":\"%.*s", PRINT_BYTES(piece->text));
    json_writer_text(writer, "\"}}]}");
}

static const struct answer_call *call_at(const struct api_choice *whole, uint32_t index) {
    const struct answer_call *call = whole->calls->first;
    while (call && index--)
        call = call->next;
    return call;
}

/* Sends the input of the open call if its tool takes text: place->open is its index + 1. */
static void chat_dialect_close_text_call(struct json_writer *writer,
                                         const struct api_answer *answer,
                                         struct dialect_place *place,
                                         const struct api_event *event) {
    const struct answer_call *call = place->open ? call_at(event->whole, place->open - 1) : NULL;
    if (call) {
        openai_words_chunk_begin(writer, &form, answer, event->choice);
        json_writer_print(writer,
                          "\"delta\":{\"tool_calls\":[{\"index\":%u,\"custom\":{\"input\":\"",
                          place->open - 1);
        text_input_write(&call->arguments, writer);
        json_writer_text(writer, "\"}}]}");
        openai_words_chunk_end(writer, &form, answer, NULL, API_FINISH_NONE);
    }
    place->open = 0;
}

static void chat_dialect_write_delta(struct json_writer *writer, const struct api_answer *answer,
                                     const struct api_piece *piece, bool takes_text) {
    if (piece->part == TOKEN_STREAM_CALL || piece->part == TOKEN_STREAM_ARGUMENTS)
        write_call_delta(writer, answer, piece, takes_text);
    else if (piece->part == TOKEN_STREAM_REASONING)
        json_writer_print(writer, "\"delta\":{\"content\":null,\"reasoning_content\":\"%.*s\"}",
                          PRINT_BYTES(piece->text));
    else
        json_writer_print(writer, "\"delta\":{\"content\":\"%.*s\",\"reasoning_content\":null}",
                          PRINT_BYTES(piece->text));
}

static void chat_dialect_write_piece(struct json_writer *writer, const struct api_answer *answer,
                                     struct dialect_place *place, const struct api_event *event) {
    const struct api_piece *piece = &event->piece;
    bool goes_on = piece->part == TOKEN_STREAM_ARGUMENTS;
    if (!goes_on) chat_dialect_close_text_call(writer, answer, place, event);
    if (piece->part == TOKEN_STREAM_CALL && chat_dialect_takes_text(answer, piece->text))
        place->open = piece->call + 1;
    if (goes_on && place->open && !piece->tokens) return;
    openai_words_chunk_begin(writer, &form, answer, event->choice);
    chat_dialect_write_delta(writer, answer, piece, place->open);
    openai_words_chunk_end(writer, &form, answer, piece, API_FINISH_NONE);
}

static void chat_dialect_write_event(struct json_writer *writer, const struct api_answer *answer,
                                     struct dialect_place *place, const struct api_event *event) {
    switch (event->kind) {
    case API_EVENT_BEGIN:
        openai_words_chunk_begin(writer, &form, answer, event->choice);
        json_writer_text(writer, "\"delta\":{\"role\":\"assistant\",");
        json_writer_text(writer, event->in_reasoning
                                     ? "\"content\":null,\"reasoning_content\":\"\"}"
                                     : "\"content\":\"\",\"reasoning_content\":null}");
        openai_words_chunk_end(writer, &form, answer, NULL, API_FINISH_NONE);
        return;
    case API_EVENT_PIECE:
        chat_dialect_write_piece(writer, answer, place, event);
        return;
    case API_EVENT_FINISH:
        chat_dialect_close_text_call(writer, answer, place, event);
        openai_words_chunk_begin(writer, &form, answer, event->choice);
        json_writer_text(writer, "\"delta\":{\"content\":\"\",\"reasoning_content\":null}");
        openai_words_chunk_end(writer, &form, answer, NULL, event->finish);
        return;
    case API_EVENT_DONE:
        openai_words_done(writer, &form, answer, &event->usage, event->receipt);
        return;
    case API_EVENT_FAILED:
        openai_words_failed(writer, event->error);
    }
}

static void chat_dialect_write_progress(struct json_writer *writer, const struct api_answer *answer,
                                        const struct api_progress *progress) {
    openai_words_progress(writer, &form, answer, progress,
                          "\"delta\":{\"role\":\"assistant\",\"content\":null}");
}

const struct dialect chat_dialect = {
    .name = "chat",
    .number = DIALECT_CHAT,
    .chats = true,
    .prompt_field = "messages",
    .call_prefix = "call_",
    .keep_alive = {OPENAI_WORDS_KEEP_ALIVE, sizeof OPENAI_WORDS_KEEP_ALIVE - 1},
    .frame_bytes = CHAT_FRAME_BYTES,
    .read = read_chat,
    .write_whole = chat_dialect_write_whole,
    .write_event = chat_dialect_write_event,
    .write_progress = chat_dialect_write_progress,
    .write_error = api_error_write,
};
