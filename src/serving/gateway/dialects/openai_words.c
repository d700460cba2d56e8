/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/openai_words.h"

#include "base/check.h"
#include "serving/gateway/api/api_tokens.h"

#define DONE "data: [DONE]\n\n"

const char *openai_words_finish(enum api_finish finish) {
    static const char *const names[] = {
        [API_FINISH_STOP] = "stop",
        [API_FINISH_STOP_STRING] = "stop",
        [API_FINISH_LENGTH] = "length",
        [API_FINISH_CALLS] = "tool_calls",
        [API_FINISH_CUT] = "insufficient_system_resource",
    };
    check(finish > API_FINISH_NONE && finish <= API_FINISH_CUT);
    return names[finish];
}

/* Writes "id":…,"object":…,"created":…,"model":…,"system_fingerprint":…, with the comma. */
static void openai_words_write_head(struct json_writer *writer,
                                    const struct openai_words_form *form,
                                    const struct api_answer *answer, bool chunk) {
    json_writer_print(writer,
                      "{\"id\":\"%s-%016lx%016lx\",\"object\":\"%s\",\"created\":%ld,\"model\":"
                      "\"%.*s\",\"system_fingerprint\":\"%.*s\",",
                      form->id_prefix, answer->id.high, answer->id.low,
                      chunk ? form->chunk : form->whole, answer->created,
                      PRINT_BYTES(answer->model), PRINT_BYTES(answer->fingerprint));
}

static void openai_words_write_usage(struct json_writer *writer, const struct api_usage *usage) {
    json_writer_print(
        writer,
        "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%lu,"
        "\"prompt_cache_hit_tokens\":%u,\"prompt_cache_miss_tokens\":%u,"
        "\"prompt_tokens_details\":{\"cached_tokens\":%u},"
        "\"completion_tokens_details\":{\"reasoning_tokens\":%u,"
        "\"accepted_prediction_tokens\":%u,\"rejected_prediction_tokens\":%u}}",
        usage->prompt_tokens, usage->completion_tokens,
        (uint64_t)usage->prompt_tokens + usage->completion_tokens, usage->prompt_hit_tokens,
        usage->prompt_tokens - usage->prompt_hit_tokens, usage->prompt_hit_tokens,
        usage->reasoning_tokens, usage->drafts_right, usage->drafts_made - usage->drafts_right);
}

/* Writes the end of a choice: its tokens and its prompt's, if they are reported, and the finish
 * reason. */
static void openai_words_write_rest(struct json_writer *writer,
                                    const struct openai_words_form *form,
                                    const struct api_answer *answer,
                                    const struct api_piece *reported, enum api_finish finish) {
    const struct token_list *tokens = reported ? reported->tokens : NULL;
    const struct token_list *echoed = reported ? reported->echoed : NULL;
    if (tokens && answer->token_ids) {
        json_writer_text(writer, ",\"token_ids\":");
        api_tokens_ids(writer, tokens, reported->from, reported->to);
    }
    json_writer_text(writer, ",\"logprobs\":");
    if ((!tokens && !echoed) || !answer->logprobs)
        json_writer_text(writer, "null");
    else
        form->write_logprobs(writer, answer->tokenizer, echoed, tokens, reported->from,
                             reported->to);
    if (finish)
        json_writer_print(writer, ",\"finish_reason\":\"%s\"", openai_words_finish(finish));
    else
        json_writer_text(writer, ",\"finish_reason\":null");
}

void openai_words_whole(struct json_writer *writer, const struct openai_words_form *form,
                        const struct api_answer *answer, const struct api_choice *choices,
                        size_t choice_count, const struct api_usage *usage,
                        void (*write)(struct json_writer *writer, const struct api_answer *answer,
                                      const struct api_choice *choice)) {
    openai_words_write_head(writer, form, answer, false);
    json_writer_text(writer, "\"choices\":[");
    for (size_t i = 0; i < choice_count; i++) {
        struct api_piece reported = {.echoed = choices[i].echoed,
                                     .tokens = choices[i].tokens,
                                     .to = choices[i].tokens->count};
        json_writer_print(writer, "%s{\"index\":%zu,", i ? "," : "", i);
        write(writer, answer, &choices[i]);
        openai_words_write_rest(writer, form, answer, &reported, choices[i].finish);
        json_writer_text(writer, "}");
    }
    json_writer_text(writer, "],");
    openai_words_write_usage(writer, usage);
    json_writer_text(writer, "}");
}

/* ---- streams ---- */

void openai_words_chunk_begin(struct json_writer *writer, const struct openai_words_form *form,
                              const struct api_answer *answer, uint32_t choice) {
    json_writer_text(writer, "data: ");
    openai_words_write_head(writer, form, answer, true);
    json_writer_print(writer, "\"choices\":[{\"index\":%u,", choice);
}

void openai_words_chunk_end(struct json_writer *writer, const struct openai_words_form *form,
                            const struct api_answer *answer, const struct api_piece *piece,
                            enum api_finish finish) {
    openai_words_write_rest(writer, form, answer, piece, finish);
    json_writer_text(writer, answer->include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

void openai_words_progress(struct json_writer *writer, const struct openai_words_form *form,
                           const struct api_answer *answer, const struct api_progress *progress,
                           const char *piece) {
    openai_words_chunk_begin(writer, form, answer, 0);
    json_writer_text(writer, piece);
    openai_words_write_rest(writer, form, answer, NULL, API_FINISH_NONE);
    json_writer_print(writer,
                      "}],%s\"prompt_progress\":{\"total\":%u,\"cache\":%u,\"processed\":%u,"
                      "\"time_ms\":%ld}}\n\n",
                      answer->include_usage ? "\"usage\":null," : "", progress->prompt_tokens,
                      progress->cached_tokens, progress->ready_tokens, progress->ns / 1000000);
}

void openai_words_done(struct json_writer *writer, const struct openai_words_form *form,
                       const struct api_answer *answer, const struct api_usage *usage,
                       struct bytes receipt) {
    if (answer->include_usage) {
        json_writer_text(writer, "data: ");
        openai_words_write_head(writer, form, answer, true);
        json_writer_text(writer, "\"choices\":[],");
        openai_words_write_usage(writer, usage);
        json_writer_text(writer, "}\n\n");
    }
    if (receipt.count) {
        json_writer_text(writer, "data: ");
        openai_words_write_head(writer, form, answer, true);
        json_writer_text(writer, answer->include_usage
                                     ? "\"choices\":[],\"usage\":null,\"receipt\":"
                                     : "\"choices\":[],\"receipt\":");
        json_writer_bytes(writer, receipt);
        json_writer_text(writer, "}\n\n");
    }
    json_writer_text(writer, DONE);
}

void openai_words_failed(struct json_writer *writer, const struct api_error *error) {
    json_writer_text(writer, "data: ");
    api_error_write(writer, error);
    json_writer_text(writer, "\n\n" DONE);
}

/* ---- models ---- */

void openai_words_model(struct json_writer *writer, struct bytes name, int64_t created,
                        uint64_t tokens_max) {
    json_writer_print(
        writer, "{\"id\":\"%.*s\",\"object\":\"model\",\"created\":%ld,\"owned_by\":\"fathom\"",
        PRINT_BYTES(name), created);
    if (tokens_max) json_writer_print(writer, ",\"max_model_len\":%lu", tokens_max);
    json_writer_text(writer, "}");
}

void openai_words_models(struct json_writer *writer, const struct api_model *models, size_t count,
                         int64_t created, uint64_t tokens_max) {
    json_writer_text(writer, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0) json_writer_text(writer, ",");
        openai_words_model(writer, models[i].name, created, tokens_max);
    }
    json_writer_text(writer, "]}");
}
