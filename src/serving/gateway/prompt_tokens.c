/* SPDX-License-Identifier: Apache-2.0
 * /tokenize and /detokenize: the tokens of a text, as in a completion's prompt, and the reverse. A
 * text to tokenize becomes a request and is tokenized like any prompt (intake.h), through the
 * tokenizer's queue if it is long. reply_tokens ends the request.
 */
#include "base/check.h"
#include "serving/gateway/api/api_reader.h"
#include "serving/gateway/api/api_values.h"
#include "serving/gateway/dialects/completion_dialect.h"
#include "serving/gateway/intake.h"
#include "serving/gateway/reply.h"

/* ---- tokenize ---- */

/* Parses the body and checks its model's name. */
static bool open_body(struct gateway *gateway, const struct endpoint_call *call,
                      struct api_reader *reader, struct api_request *out) {
    const struct record_client_request *record = call->record;
    struct bytes body = {client_request_body(record), record->body_bytes};
    arena_clear(&gateway->scratch);
    if (!intake_ready(gateway, body.count, reader->error) || !api_request_open(reader, body))
        return false;
    const struct tree *model = api_reader_given(reader->root, "model");
    return !model || api_values_model(reader, model, out);
}

static bool prompt_tokens_read_text(struct api_reader *reader, struct api_prompt *prompt,
                                    struct api_request *out) {
    static const char *const unsupported[] = {"messages", "return_token_strs"};
    for (size_t i = 0; i < ARRAY_COUNT(unsupported); i++) {
        const struct tree *value = api_reader_given(reader->root, unsupported[i]);
        if (value && !api_reader_is_neutral(value, NULL))
            return api_reader_unsupported(reader, unsupported[i],
                                          "is not supported here; send a text as 'prompt'.");
    }
    if (!api_reader_given(reader->root, "prompt")) return api_reader_missing(reader, "prompt");
    return api_reader_text(reader, reader->root, "prompt", &prompt->text) &&
           api_reader_flag(reader, reader->root, "add_special_tokens", &out->special_tokens);
}

enum status prompt_tokens_ask(struct gateway *gateway, const struct endpoint_call *call) {
    struct api_error error;
    struct api_defaults defaults = {.models = gateway->models.names,
                                    .model_count = gateway->models.count,
                                    .any_model = gateway->models.any};
    struct api_reader reader = {.arena = &gateway->scratch,
                                .dialect = &completion_dialect,
                                .defaults = &defaults,
                                .error = &error};
    struct api_prompt prompt = {0};
    struct api_request parsed = {.dialect = &completion_dialect,
                                 .prompts = &prompt,
                                 .prompt_count = 1,
                                 .choice_count = 1,
                                 .tokens_only = true,
                                 .special_tokens = true};
    if (!open_body(gateway, call, &reader, &parsed) ||
        !prompt_tokens_read_text(&reader, &prompt, &parsed))
        return reply_error(gateway, call->record->connection, call->endpoint,
                           &(struct reply_notes){.account = call->account, .key = call->key},
                           &error);
    return intake_take(gateway, call, &parsed);
}

/* ---- detokenize ---- */

static bool prompt_tokens_read_tokens(struct api_reader *reader, struct api_prompt *out) {
    const struct tree *array = api_reader_given(reader->root, "tokens");
    if (!array) return api_reader_missing(reader, "tokens");
    if (tree_kind(array) != TREE_ARRAY)
        return api_reader_wrong_type(reader, "tokens", "an array of token ids", array);
    out->token_count = tree_count(array);
    uint32_t *tokens = arena_take(reader->arena, (out->token_count + 1) * sizeof *tokens);
    if (!tokens) return api_reader_no_memory(reader);
    for (size_t i = 0; i < out->token_count; i++)
        if (!api_reader_token(reader, "tokens", "an array of token ids", array, i, &tokens[i]))
            return false;
    out->tokens = tokens;
    return true;
}

/* Checks ids against the model's vocabulary, or the tokenizer's until a unit has joined. */
static bool check_ids(const struct gateway *gateway, const struct api_prompt *prompt,
                      struct api_error *error) {
    uint32_t vocab = gateway->fleet.model.vocab_count;
    if (!vocab) vocab = gateway->options.vocab_count;
    if (!vocab) vocab = tokenizer_vocab_count(gateway->options.tokenizer);
    for (size_t i = 0; i < prompt->token_count; i++)
        if (prompt->tokens[i] >= vocab)
            return api_error_set(error, 422, "tokens", "out_of_range",
                                 "'tokens[%zu]' is %u; the largest id of this model is %u.", i,
                                 prompt->tokens[i], vocab - 1);
    return true;
}

static bool prompt_tokens_decode(struct gateway *gateway, const struct api_prompt *prompt,
                                 struct bytes *out, struct api_error *error) {
    const struct tokenizer *tokenizer = gateway->options.tokenizer;
    size_t count = 0;
    if (!tokenizer)
        return api_error_set(error, 400, "tokens", "no_tokenizer",
                             "This checkpoint has no tokenizer.");
    if (!check_ids(gateway, prompt, error)) return false;
    enum status status =
        tokenizer_decode(tokenizer, prompt->tokens, prompt->token_count, false, NULL, 0, &count);
    char *text = arena_take(&gateway->scratch, count + 1);
    if (!text) {
        api_error_no_memory(error);
        return false;
    }
    if (status == STATUS_FULL)
        status = tokenizer_decode(tokenizer, prompt->tokens, prompt->token_count, false, text,
                                  count, &count);
    check(status == STATUS_OK);
    *out = (struct bytes){text, count};
    return json_writer_escaped_count(*out) <= reply_text_bytes_max(gateway, 1) ||
           reply_refuse_size(error, "tokens") == STATUS_OK;
}

static void prompt_tokens_write_text(struct json_writer *writer, const void *context) {
    json_writer_text(writer, "{\"prompt\":");
    json_writer_string(writer, *(const struct bytes *)context);
    json_writer_text(writer, "}");
}

enum status prompt_tokens_text(struct gateway *gateway, const struct endpoint_call *call) {
    struct api_error error;
    struct api_defaults defaults = {.models = gateway->models.names,
                                    .model_count = gateway->models.count,
                                    .any_model = gateway->models.any,
                                    .tokens_max = fleet_tokens_max(&gateway->fleet)};
    struct api_reader reader = {.arena = &gateway->scratch,
                                .dialect = &completion_dialect,
                                .defaults = &defaults,
                                .error = &error};
    struct reply_notes notes = {.account = call->account, .key = call->key};
    struct api_request parsed = {0};
    struct api_prompt prompt = {0};
    struct bytes text;
    if (!open_body(gateway, call, &reader, &parsed) ||
        !models_allow(&gateway->models,
                      accounts_models_denied(&gateway->accounts, call->account, call->key),
                      parsed.model, &error) ||
        !prompt_tokens_read_tokens(&reader, &prompt) ||
        !prompt_tokens_decode(gateway, &prompt, &text, &error))
        return reply_error(gateway, call->record->connection, call->endpoint, &notes, &error);
    struct reply reply = {.connection = call->record->connection,
                          .endpoint = call->endpoint,
                          .http_status = 200,
                          .content_type = CONTENT_JSON,
                          .notes = &notes};
    return reply_whole(gateway, &reply, prompt_tokens_write_text, &text);
}
