/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/ollama_words.h"

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"

#define SECONDS_PER_DAY 86400
#define DAYS_TO_1970 719468 /* days from 0000-03-01 to 1970-01-01 */

/* Writes a time as "2026-01-31T23:59:59Z". Years begin in March, so that a leap day is a year's
 * last day. */
static void ollama_words_time(struct json_writer *writer, int64_t unix_seconds) {
    int64_t seconds = unix_seconds % SECONDS_PER_DAY;
    int64_t days = unix_seconds / SECONDS_PER_DAY + DAYS_TO_1970;
    int64_t era = days / 146097, day = days % 146097; /* of 400 years */
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    day -= 365 * year + year / 4 - year / 100;
    int64_t month = (5 * day + 2) / 153, march = month < 10 ? month + 3 : month - 9;
    char text[40];
    format_text(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02dZ",
                (int)(era * 400 + year + (march <= 2)), (int)march,
                (int)(day - (153 * month + 2) / 5 + 1), (int)(seconds / 3600),
                (int)(seconds / 60 % 60), (int)(seconds % 60));
    json_writer_text(writer, text);
}

/* ---- parts of whole answers and streams ---- */

static bool ollama_words_chats(const struct api_answer *answer) {
    return answer->dialect->number == DIALECT_OLLAMA_CHAT;
}

/* Writes {"model":…,"created_at":…, and opens the message; a generated text has none. */
static void ollama_words_begin(struct json_writer *writer, const struct api_answer *answer) {
    json_writer_print(writer, "{\"model\":\"%.*s\",\"created_at\":\"", PRINT_BYTES(answer->model));
    ollama_words_time(writer, answer->created);
    json_writer_text(writer, ollama_words_chats(answer)
                                 ? "\",\"message\":{\"role\":\"assistant\",\"content\":\""
                                 : "\",\"response\":\"");
}

/* Closes the message. */
static void ollama_words_end_message(struct json_writer *writer, const struct api_answer *answer) {
    if (ollama_words_chats(answer)) json_writer_text(writer, "}");
}

/* Writes a call. Line ends between the parts of its arguments become blanks: a stream is lines. */
static void ollama_words_call(struct json_writer *writer, const struct answer_call *call,
                              uint32_t index) {
    size_t from = writer->count;
    json_writer_print(
        writer, "{\"id\":\"%.*s\",\"function\":{\"index\":%u,\"name\":\"%.*s\",\"arguments\":",
        PRINT_BYTES(call->id), index, PRINT_BYTES(call->name));
    answer_calls_write_object(writer, &call->arguments);
    for (; from < writer->count && from < writer->room; from++)
        if (writer->out[from] == '\n' || writer->out[from] == '\r') writer->out[from] = ' ';
    json_writer_text(writer, "}}");
}

/* Writes the members that end an answer, behind its message. */
static void ollama_words_done(struct json_writer *writer, enum api_finish finish,
                              const struct api_usage *usage) {
    static const char *const reasons[] = {
        [API_FINISH_NONE] = "error",       [API_FINISH_STOP] = "stop",
        [API_FINISH_STOP_STRING] = "stop", [API_FINISH_LENGTH] = "length",
        [API_FINISH_CALLS] = "stop",       [API_FINISH_CUT] = "error",
    };
    json_writer_print(writer,
                      ",\"done\":true,\"done_reason\":\"%s\",\"total_duration\":%lu,"
                      "\"load_duration\":0,\"prompt_eval_count\":%u,\"prompt_eval_duration\":%lu,"
                      "\"eval_count\":%u,\"eval_duration\":%lu",
                      reasons[finish], (uint64_t)(usage->prompt_ns + usage->answer_ns),
                      usage->prompt_tokens, (uint64_t)usage->prompt_ns, usage->completion_tokens,
                      (uint64_t)usage->answer_ns);
}

/* ---- whole answers ---- */

void ollama_words_whole(struct json_writer *writer, const struct api_answer *answer,
                        const struct api_choice *choices, size_t choice_count,
                        const struct api_usage *usage) {
    const struct answer_call *first = choices->calls ? choices->calls->first : NULL;
    uint32_t index = 0;
    check(choice_count == 1);
    ollama_words_begin(writer, answer);
    answer_text_write_part(choices->text, TOKEN_STREAM_CONTENT, writer);
    json_writer_text(writer, "\"");
    if (answer_text_part_count(choices->text, TOKEN_STREAM_REASONING)) {
        json_writer_text(writer, ",\"thinking\":\"");
        answer_text_write_part(choices->text, TOKEN_STREAM_REASONING, writer);
        json_writer_text(writer, "\"");
    }
    for (const struct answer_call *call = first; call; call = call->next) {
        json_writer_text(writer, call == first ? ",\"tool_calls\":[" : ",");
        ollama_words_call(writer, call, index++);
    }
    if (first) json_writer_text(writer, "]");
    ollama_words_end_message(writer, answer);
    ollama_words_done(writer, choices->finish, usage);
    json_writer_text(writer, "}");
}

/* ---- streams ---- */

static void ollama_words_end_line(struct json_writer *writer, const struct api_answer *answer) {
    ollama_words_end_message(writer, answer);
    json_writer_text(writer, ",\"done\":false}\n");
}

/* Sends the open call, which is whole: place->open is its index + 1. */
static void ollama_words_close_call(struct json_writer *writer, const struct api_answer *answer,
                                    struct dialect_place *place, const struct api_event *event) {
    if (!place->open) return;
    const struct answer_call *call = event->whole->calls->first;
    for (uint32_t i = 1; i < place->open && call; i++)
        call = call->next;
    check(call);
    ollama_words_begin(writer, answer);
    json_writer_text(writer, "\",\"tool_calls\":[");
    ollama_words_call(writer, call, place->open - 1);
    json_writer_text(writer, "]");
    ollama_words_end_line(writer, answer);
    place->open = 0;
}

static void ollama_words_piece(struct json_writer *writer, const struct api_answer *answer,
                               struct dialect_place *place, const struct api_event *event) {
    const struct api_piece *piece = &event->piece;
    if (piece->part == TOKEN_STREAM_ARGUMENTS || piece->text.count == 0) return;
    ollama_words_close_call(writer, answer, place, event);
    if (piece->part == TOKEN_STREAM_CALL) {
        place->open = piece->call + 1;
        return;
    }
    ollama_words_begin(writer, answer);
    json_writer_print(writer,
                      piece->part == TOKEN_STREAM_REASONING ? "\",\"thinking\":\"%.*s\"" : "%.*s\"",
                      PRINT_BYTES(piece->text));
    ollama_words_end_line(writer, answer);
}

void ollama_words_event(struct json_writer *writer, const struct api_answer *answer,
                        struct dialect_place *place, const struct api_event *event) {
    switch (event->kind) {
    case API_EVENT_BEGIN: /* nothing to send yet */
        return;
    case API_EVENT_PIECE:
        ollama_words_piece(writer, answer, place, event);
        return;
    case API_EVENT_FINISH:
        ollama_words_close_call(writer, answer, place, event);
        return;
    case API_EVENT_DONE:
        ollama_words_begin(writer, answer);
        json_writer_text(writer, "\"");
        ollama_words_end_message(writer, answer);
        ollama_words_done(writer, event->finish, &event->usage);
        if (event->receipt.count) {
            json_writer_text(writer, ",\"receipt\":");
            json_writer_bytes(writer, event->receipt);
        }
        json_writer_text(writer, "}\n");
        return;
    case API_EVENT_FAILED:
        ollama_words_error(writer, event->error);
        json_writer_text(writer, "\n");
    }
}

#define LOADED "\"done\":true,\"done_reason\":\"load\"}"

void ollama_words_loaded(struct json_writer *writer, uint32_t prompt_tokens) {
    json_writer_text(writer, "{\"message\":{\"role\":\"assistant\",\"content\":\"\"}," LOADED);
}

void ollama_words_loaded_text(struct json_writer *writer, uint32_t prompt_tokens) {
    json_writer_text(writer, "{\"response\":\"\"," LOADED);
}

void ollama_words_error(struct json_writer *writer, const struct api_error *error) {
    json_writer_text(writer, "{\"error\":");
    utf8_write_repaired(writer, bytes_of(error->message)); /* the message quotes clients' text */
    json_writer_text(writer, "}");
}

/* ---- models ---- */

static void ollama_words_details(struct json_writer *writer) {
    json_writer_text(writer, "\"details\":{\"parent_model\":\"\",\"format\":\"safetensors\","
                             "\"family\":\"fathom\",\"families\":[\"fathom\"],"
                             "\"parameter_size\":\"\",\"quantization_level\":\"\"}");
}

void ollama_words_tags(struct json_writer *writer, const struct ollama_models *listed) {
    json_writer_text(writer, "{\"models\":[");
    for (uint32_t i = 0; i < listed->count; i++) {
        struct bytes name = listed->models[i].name;
        json_writer_print(writer, "%s{\"name\":\"%.*s\",\"model\":\"%.*s\",\"modified_at\":\"",
                          i ? "," : "", PRINT_BYTES(name), PRINT_BYTES(name));
        ollama_words_time(writer, listed->created);
        json_writer_text(writer, "\",\"size\":0,\"digest\":\"");
        for (int byte = 0; byte < 32; byte++) {
            char digits[3];
            format_text(digits, sizeof digits, "%02x", (uint8_t)listed->model_id[byte]);
            json_writer_text(writer, digits);
        }
        json_writer_text(writer, "\",");
        ollama_words_details(writer);
        json_writer_text(writer, "}");
    }
    json_writer_text(writer, "]}");
}

void ollama_words_show(struct json_writer *writer, const struct ollama_models *listed) {
    json_writer_text(writer, "{\"modelfile\":\"\",\"parameters\":\"\",\"template\":\"\",");
    ollama_words_details(writer);
    json_writer_text(writer, ",\"model_info\":{\"general.architecture\":\"fathom\"");
    if (listed->tokens_max)
        json_writer_print(writer, ",\"fathom.context_length\":%lu", listed->tokens_max);
    json_writer_text(writer, "},\"capabilities\":[\"completion\"");
    if (listed->calls) json_writer_text(writer, ",\"tools\"");
    if (listed->thinks) json_writer_text(writer, ",\"thinking\"");
    json_writer_text(writer, "],\"modified_at\":\"");
    ollama_words_time(writer, listed->created);
    json_writer_text(writer, "\"}");
}
