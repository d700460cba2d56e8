/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/openai_words.h"

#include "base/check.h"
#include "base/format.h"
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

/* "id":…,"object":…,"created":…,"model":…,"system_fingerprint":…, followed by a comma. */
static void openai_words_write_head(struct json_writer *writer,
                                    const struct openai_words_form *form,
                                    const struct api_answer *answer, bool chunk) {
    char id[64];
    format_text(id, sizeof id, "%s-%016llx%016llx", form->id_prefix,
                (unsigned long long)answer->id.high, (unsigned long long)answer->id.low);
    json_writer_text(writer, "{\"id\":\"");
    json_writer_text(writer, id);
    json_writer_text(writer, "\",\"object\":\"");
    json_writer_text(writer, chunk ? form->chunk : form->whole);
    json_writer_text(writer, "\",\"created\":");
    json_writer_integer(writer, answer->created);
    json_writer_text(writer, ",\"model\":");
    json_writer_string(writer, answer->model);
    json_writer_text(writer, ",\"system_fingerprint\":");
    json_writer_string(writer, answer->fingerprint);
    json_writer_text(writer, ",");
}

static void openai_words_write_member(struct json_writer *writer, const char *name,
                                      uint64_t value) {
    json_writer_text(writer, name);
    json_writer_unsigned(writer, value);
}

static void openai_words_write_usage(struct json_writer *writer, const struct api_usage *usage) {
    openai_words_write_member(writer, "\"usage\":{\"prompt_tokens\":", usage->prompt_tokens);
    openai_words_write_member(writer, ",\"completion_tokens\":", usage->completion_tokens);
    openai_words_write_member(
        writer, ",\"total_tokens\":", (uint64_t)usage->prompt_tokens + usage->completion_tokens);
    openai_words_write_member(writer, ",\"prompt_cache_hit_tokens\":", usage->prompt_hit_tokens);
    openai_words_write_member(
        writer, ",\"prompt_cache_miss_tokens\":", usage->prompt_tokens - usage->prompt_hit_tokens);
    openai_words_write_member(
        writer, ",\"prompt_tokens_details\":{\"cached_tokens\":", usage->prompt_hit_tokens);
    openai_words_write_member(
        writer, "},\"completion_tokens_details\":{\"reasoning_tokens\":", usage->reasoning_tokens);
    openai_words_write_member(writer, ",\"accepted_prediction_tokens\":", usage->drafts_right);
    openai_words_write_member(
        writer, ",\"rejected_prediction_tokens\":", usage->drafts_made - usage->drafts_right);
    json_writer_text(writer, "}}");
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
    json_writer_text(writer, ",\"finish_reason\":");
    if (finish)
        json_writer_string(writer, bytes_of(openai_words_finish(finish)));
    else
        json_writer_text(writer, "null");
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
        openai_words_write_member(writer, i ? ",{\"index\":" : "{\"index\":", i);
        json_writer_text(writer, ",");
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
    openai_words_write_member(writer, "\"choices\":[{\"index\":", choice);
    json_writer_text(writer, ",");
}

void openai_words_chunk_end(struct json_writer *writer, const struct openai_words_form *form,
                            const struct api_answer *answer, const struct api_piece *piece,
                            enum api_finish finish) {
    openai_words_write_rest(writer, form, answer, piece, finish);
    json_writer_text(writer, answer->include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
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
    json_writer_text(writer, "{\"id\":");
    json_writer_string(writer, name);
    json_writer_text(writer, ",\"object\":\"model\",\"created\":");
    json_writer_integer(writer, created);
    json_writer_text(writer, ",\"owned_by\":\"fathom\"");
    if (tokens_max) openai_words_write_member(writer, ",\"max_model_len\":", tokens_max);
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
