/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_response.h"

#include "base/format.h"

#define DONE "data: [DONE]\n\n"

/* "id":…,"object":…,"created":…,"model":…,"system_fingerprint":…, with a comma behind. */
static void write_head(struct json_writer *writer, const struct api_answer *answer, bool chunk) {
    char id[64];
    bool chat = answer->endpoint == API_CHAT;
    format_text(id, sizeof id, "%s-%016llx%016llx", chat ? "chatcmpl" : "cmpl",
                (unsigned long long)answer->id.high, (unsigned long long)answer->id.low);
    json_writer_text(writer, "{\"id\":\"");
    json_writer_text(writer, id);
    json_writer_text(writer, "\",\"object\":\"");
    json_writer_text(writer, !chat   ? "text_completion"
                             : chunk ? "chat.completion.chunk"
                                     : "chat.completion");
    json_writer_text(writer, "\",\"created\":");
    json_writer_integer(writer, answer->created);
    json_writer_text(writer, ",\"model\":");
    json_writer_string(writer, answer->model);
    json_writer_text(writer, ",\"system_fingerprint\":");
    json_writer_string(writer, answer->fingerprint);
    json_writer_text(writer, ",");
}

static void write_member(struct json_writer *writer, const char *name, uint64_t value) {
    json_writer_text(writer, name);
    json_writer_unsigned(writer, value);
}

static void write_usage(struct json_writer *writer, const struct api_usage *usage) {
    write_member(writer, "\"usage\":{\"prompt_tokens\":", usage->prompt_tokens);
    write_member(writer, ",\"completion_tokens\":", usage->completion_tokens);
    write_member(writer,
                 ",\"total_tokens\":", (uint64_t)usage->prompt_tokens + usage->completion_tokens);
    write_member(writer, ",\"prompt_cache_hit_tokens\":", usage->prompt_hit_tokens);
    write_member(writer,
                 ",\"prompt_cache_miss_tokens\":", usage->prompt_tokens - usage->prompt_hit_tokens);
    write_member(writer,
                 ",\"prompt_tokens_details\":{\"cached_tokens\":", usage->prompt_hit_tokens);
    write_member(writer,
                 "},\"completion_tokens_details\":{\"reasoning_tokens\":", usage->reasoning_tokens);
    write_member(writer, ",\"accepted_prediction_tokens\":", usage->drafts_right);
    write_member(writer,
                 ",\"rejected_prediction_tokens\":", usage->drafts_made - usage->drafts_right);
    json_writer_text(writer, "}}");
}

/* What ends each choice: its tokens, and its prompt's, if any are told, and the finish reason
 * (NULL: not yet). */
static void write_rest(struct json_writer *writer, const struct api_answer *answer,
                       const struct token_list *echoed, const struct token_list *tokens,
                       uint32_t from, uint32_t to, const char *finish) {
    if (tokens && answer->token_ids) {
        json_writer_text(writer, ",\"token_ids\":");
        api_tokens_ids(writer, tokens, from, to);
    }
    json_writer_text(writer, ",\"logprobs\":");
    if ((!tokens && !echoed) || !answer->logprobs)
        json_writer_text(writer, "null");
    else if (answer->endpoint == API_CHAT)
        api_tokens_chat_logprobs(writer, answer->tokenizer, tokens, from, to);
    else
        api_tokens_completion_logprobs(writer, answer->tokenizer, echoed, tokens, from, to);
    json_writer_text(writer, ",\"finish_reason\":");
    if (finish)
        json_writer_string(writer, bytes_of(finish));
    else
        json_writer_text(writer, "null");
}

static void write_message(struct json_writer *writer, const struct answer_text *text) {
    json_writer_text(writer, "\"message\":{\"role\":\"assistant\",\"content\":\"");
    answer_text_write(text, text->reasoning_count, text->count, true, writer);
    json_writer_text(writer, "\"");
    if (text->reasoning_count) {
        json_writer_text(writer, ",\"reasoning_content\":\"");
        answer_text_write(text, 0, text->reasoning_count, true, writer);
        json_writer_text(writer, "\"");
    }
    json_writer_text(writer, "}");
}

static void write_choice(struct json_writer *writer, const struct api_answer *answer,
                         const struct api_choice *choice, size_t index) {
    json_writer_text(writer, index ? ",{\"index\":" : "{\"index\":");
    json_writer_unsigned(writer, index);
    json_writer_text(writer, ",");
    if (answer->endpoint == API_CHAT) {
        write_message(writer, choice->text);
    } else {
        json_writer_text(writer, "\"text\":\"");
        answer_text_write(choice->text, 0, choice->text->count, true, writer);
        json_writer_text(writer, "\"");
    }
    write_rest(writer, answer, choice->echoed, choice->tokens, 0, choice->tokens->count,
               choice->finish);
    json_writer_text(writer, "}");
}

void api_response_whole(struct json_writer *writer, const struct api_answer *answer,
                        const struct api_choice *choices, size_t choice_count,
                        const struct api_usage *usage) {
    write_head(writer, answer, false);
    json_writer_text(writer, "\"choices\":[");
    for (size_t i = 0; i < choice_count; i++)
        write_choice(writer, answer, &choices[i], i);
    json_writer_text(writer, "],");
    write_usage(writer, usage);
    json_writer_text(writer, "}");
}

/* ---- streams ---- */

static void event_begin(struct json_writer *writer, const struct api_answer *answer,
                        uint32_t choice) {
    json_writer_text(writer, "data: ");
    write_head(writer, answer, true);
    write_member(writer, "\"choices\":[{\"index\":", choice);
    json_writer_text(writer, ",");
}

static void event_end(struct json_writer *writer, const struct api_answer *answer,
                      const struct api_piece *piece, const char *finish) {
    if (piece)
        write_rest(writer, answer, piece->echoed, piece->tokens, piece->from, piece->to, finish);
    else
        write_rest(writer, answer, NULL, NULL, 0, 0, finish);
    json_writer_text(writer, answer->include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

void api_response_role(struct json_writer *writer, const struct api_answer *answer, uint32_t choice,
                       bool in_reasoning) {
    if (answer->endpoint != API_CHAT) return;
    event_begin(writer, answer, choice);
    json_writer_text(writer, "\"delta\":{\"role\":\"assistant\",");
    json_writer_text(writer, in_reasoning ? "\"content\":null,\"reasoning_content\":\"\"}"
                                          : "\"content\":\"\",\"reasoning_content\":null}");
    event_end(writer, answer, NULL, NULL);
}

void api_response_delta(struct json_writer *writer, const struct api_answer *answer,
                        uint32_t choice, const struct api_piece *piece) {
    event_begin(writer, answer, choice);
    if (answer->endpoint != API_CHAT) {
        json_writer_text(writer, "\"text\":");
        json_writer_string(writer, piece->text);
    } else if (piece->part == TOKEN_STREAM_REASONING) {
        json_writer_text(writer, "\"delta\":{\"content\":null,\"reasoning_content\":");
        json_writer_string(writer, piece->text);
        json_writer_text(writer, "}");
    } else {
        json_writer_text(writer, "\"delta\":{\"content\":");
        json_writer_string(writer, piece->text);
        json_writer_text(writer, ",\"reasoning_content\":null}");
    }
    event_end(writer, answer, piece, NULL);
}

void api_response_finish(struct json_writer *writer, const struct api_answer *answer,
                         uint32_t choice, const char *finish) {
    event_begin(writer, answer, choice);
    json_writer_text(writer, answer->endpoint == API_CHAT
                                 ? "\"delta\":{\"content\":\"\",\"reasoning_content\":null}"
                                 : "\"text\":\"\"");
    event_end(writer, answer, NULL, finish);
}

void api_response_done(struct json_writer *writer, const struct api_answer *answer,
                       const struct api_usage *usage, struct bytes receipt) {
    if (answer->include_usage) {
        json_writer_text(writer, "data: ");
        write_head(writer, answer, true);
        json_writer_text(writer, "\"choices\":[],");
        write_usage(writer, usage);
        json_writer_text(writer, "}\n\n");
    }
    if (receipt.count) {
        json_writer_text(writer, "data: ");
        write_head(writer, answer, true);
        json_writer_text(writer, answer->include_usage
                                     ? "\"choices\":[],\"usage\":null,\"receipt\":"
                                     : "\"choices\":[],\"receipt\":");
        json_writer_bytes(writer, receipt);
        json_writer_text(writer, "}\n\n");
    }
    json_writer_text(writer, DONE);
}

void api_response_failed(struct json_writer *writer, const struct api_error *error) {
    json_writer_text(writer, "data: ");
    api_error_write(writer, error);
    json_writer_text(writer, "\n\n" DONE);
}

/* ---- models ---- */

void api_response_model(struct json_writer *writer, struct bytes model, int64_t created) {
    json_writer_text(writer, "{\"id\":");
    json_writer_string(writer, model);
    json_writer_text(writer, ",\"object\":\"model\",\"created\":");
    json_writer_integer(writer, created);
    json_writer_text(writer, ",\"owned_by\":\"fathom\"}");
}

void api_response_models(struct json_writer *writer, struct bytes model, int64_t created) {
    json_writer_text(writer, "{\"object\":\"list\",\"data\":[");
    api_response_model(writer, model, created);
    json_writer_text(writer, "]}");
}
