/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/completion_dialect.h"

#include "serving/gateway/api/api_constraint.h"
#include "serving/gateway/api/api_tokens.h"
#include "serving/gateway/dialects/openai_fields.h"
#include "serving/gateway/dialects/openai_words.h"

/* ---- reading ---- */

/* Reads a prompt of token ids. `place`: path of the array, such as "prompt" or "prompt[3]". */
static bool read_prompt_tokens(struct api_reader *reader, const struct tree *array,
                               const char *place, struct api_prompt *out) {
    size_t count = tree_count(array);
    uint32_t *tokens = arena_take(reader->arena, (count + 1) * sizeof *tokens);
    if (!tokens) return api_reader_no_memory(reader);
    for (size_t i = 0; i < count; i++)
        if (!api_reader_token(reader, place, "a string or an array of token ids", array, i,
                              &tokens[i]))
            return false;
    out->tokens = tokens;
    out->token_count = count;
    return true;
}

/* Reads an array of prompts. All must have the same kind as the first. */
static bool read_each_prompt(struct api_reader *reader, const struct tree *array,
                             struct api_prompt *prompts) {
    enum tree_kind kind = tree_kind(tree_at(array, 0));
    struct api_place place = {"prompt"};
    for (size_t i = 0; i < tree_count(array); i++) {
        const struct tree *value = tree_at(array, i);
        if (tree_count(array) > 1) place = api_reader_place_of("prompt", i, "");
        if (tree_kind(value) != kind)
            return api_reader_wrong_type(reader, place.text,
                                         kind == TREE_ARRAY
                                             ? "an array of token ids, as prompt[0] is"
                                             : "a string, as prompt[0] is",
                                         value);
        if (kind == TREE_STRING && !tree_get_string(value, &prompts[i].text)) return false;
        if (kind == TREE_ARRAY && !read_prompt_tokens(reader, value, place.text, &prompts[i]))
            return false;
    }
    return true;
}

static bool read_prompts(struct api_reader *reader, struct api_request *out) {
    const struct tree *value = api_reader_given(reader->root, "prompt");
    if (!value) return api_reader_missing(reader, "prompt");
    enum tree_kind kind = tree_kind(value), first = kind;
    if (kind != TREE_STRING && kind != TREE_ARRAY)
        return api_reader_wrong_type(reader, "prompt", "a string or an array", value);
    if (kind == TREE_ARRAY && tree_count(value) == 0)
        return api_error_set(reader->error, 400, "prompt", "invalid_value", "'prompt' is empty.");
    if (kind == TREE_ARRAY) first = tree_kind(tree_at(value, 0));
    if (first != TREE_INTEGER && first != TREE_STRING && first != TREE_ARRAY)
        return api_reader_wrong_type(reader, "prompt[0]",
                                     "a string, a token id or an array of token ids",
                                     tree_at(value, 0));
    bool several = kind == TREE_ARRAY && first != TREE_INTEGER;
    size_t count = several ? tree_count(value) : 1;
    if (count * out->choice_count > LIMIT_ANSWERS)
        return api_error_set(reader->error, 422, "prompt", "out_of_range",
                             "'prompt' has %zu prompts, each with %u answers ('n'); a request may "
                             "have at most %d answers.",
                             count, out->choice_count, LIMIT_ANSWERS);
    struct api_prompt *prompts = arena_take_zeroed(reader->arena, count * sizeof *prompts);
    if (!prompts) return api_reader_no_memory(reader);
    out->prompts = prompts;
    out->prompt_count = (uint32_t)count;
    if (several) return read_each_prompt(reader, value, prompts);
    return kind == TREE_STRING ? tree_get_string(value, &prompts->text)
                               : read_prompt_tokens(reader, value, "prompt", prompts);
}

/* Reads "logprobs", the number of alternatives. With `echo` the prompt has log probabilities,
 * too. */
static bool completion_dialect_read_logprobs(struct api_reader *reader, struct api_request *out) {
    struct sampling *sampling = &out->sampling;
    if (!api_reader_given(reader->root, "logprobs")) return true;
    sampling->flags |= SAMPLING_LOGPROBS;
    if (out->echo) sampling->flags |= SAMPLING_SCORES;
    return api_reader_integer(reader, reader->root, "logprobs", 0, LIMIT_TOP_LOGPROBS,
                              &sampling->top_logprobs);
}

/* Checks a fill-in-the-middle request, which needs text on both sides. */
static bool check_suffix(struct api_reader *reader, const struct api_request *out) {
    if (out->suffix.count == 0) return true;
    if (out->prompts[0].tokens)
        return api_reader_unsupported(reader, "suffix", "goes with a prompt that is a text.");
    return !out->echo || api_reader_unsupported(reader, "suffix", "goes without 'echo'.");
}

static bool read_completion(struct api_reader *reader, struct api_request *out) {
    return read_prompts(reader, out) && check_suffix(reader, out) &&
           completion_dialect_read_logprobs(reader, out) && api_constraint_read(reader, out) &&
           openai_fields_read(reader, out);
}

/* ---- answers ---- */

static const struct openai_words_form form = {"cmpl", "text_completion", "text_completion",
                                              api_tokens_completion_logprobs};

static void completion_dialect_write_text(struct json_writer *writer,
                                          const struct api_answer *answer,
                                          const struct api_choice *choice) {
    json_writer_text(writer, "\"text\":\"");
    answer_text_write(choice->text, 0, choice->text->count, true, writer);
    json_writer_text(writer, "\"");
}

static void completion_dialect_write_whole(struct json_writer *writer,
                                           const struct api_answer *answer,
                                           const struct api_choice *choices, size_t choice_count,
                                           const struct api_usage *usage) {
    openai_words_whole(writer, &form, answer, choices, choice_count, usage,
                       completion_dialect_write_text);
}

static void completion_dialect_write_event(struct json_writer *writer,
                                           const struct api_answer *answer,
                                           struct dialect_place *place,
                                           const struct api_event *event) {
    switch (event->kind) {
    case API_EVENT_BEGIN: /* nothing to send yet */
        return;
    case API_EVENT_PIECE:
        openai_words_chunk_begin(writer, &form, answer, event->choice);
        json_writer_text(writer, "\"text\":");
        json_writer_string(writer, event->piece.text);
        openai_words_chunk_end(writer, &form, answer, &event->piece, API_FINISH_NONE);
        return;
    case API_EVENT_FINISH:
        openai_words_chunk_begin(writer, &form, answer, event->choice);
        json_writer_text(writer, "\"text\":\"\"");
        openai_words_chunk_end(writer, &form, answer, NULL, event->finish);
        return;
    case API_EVENT_DONE:
        openai_words_done(writer, &form, answer, &event->usage, event->receipt);
        return;
    case API_EVENT_FAILED:
        openai_words_failed(writer, event->error);
    }
}

static void completion_dialect_write_progress(struct json_writer *writer,
                                              const struct api_answer *answer,
                                              const struct api_progress *progress) {
    openai_words_progress(writer, &form, answer, progress, "\"text\":\"\"");
}

const struct dialect completion_dialect = {
    .name = "completion",
    .number = DIALECT_COMPLETION,
    .prompt_field = "prompt",
    .call_prefix = "call_",
    .keep_alive = {OPENAI_WORDS_KEEP_ALIVE, sizeof OPENAI_WORDS_KEEP_ALIVE - 1},
    .frame_bytes = OPENAI_WORDS_FRAME_BYTES,
    .read = read_completion,
    .write_whole = completion_dialect_write_whole,
    .write_event = completion_dialect_write_event,
    .write_progress = completion_dialect_write_progress,
    .write_error = api_error_write,
};
