/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/constraint_ask.h"

#include "base/check.h"

#define OPENING "<think>"
#define CLOSING "</think>"

/* ---- the token after which the form applies ---- */

/* Finds an added token by its text. TOKEN_STREAM_NO_TOKEN: there is none. */
static uint32_t constraint_ask_find_added(const struct tokenizer *tokenizer, struct bytes text) {
    uint32_t token;
    return tokenizer_find_added(tokenizer, text, &token) ? token : TOKEN_STREAM_NO_TOKEN;
}

/* If the thinking tags are not single tokens, the end of thinking cannot be recognized. Then an
 * answer with optional thinking does not think, and for one that must think the result is false. */
static bool constraint_ask_find_bound(const struct tokenizer *tokenizer,
                                      enum token_stream_mode mode, struct bytes at,
                                      struct token_stream_bound *out) {
    uint32_t opening = constraint_ask_find_added(tokenizer, BYTES_LITERAL(OPENING));
    uint32_t closing = constraint_ask_find_added(tokenizer, BYTES_LITERAL(CLOSING));
    bool marked = opening != TOKEN_STREAM_NO_TOKEN && closing != TOKEN_STREAM_NO_TOKEN;
    *out = (struct token_stream_bound){TOKEN_STREAM_NO_TOKEN, TOKEN_STREAM_NO_TOKEN,
                                       at.count ? constraint_ask_find_added(tokenizer, at)
                                                : TOKEN_STREAM_NO_TOKEN};
    if (mode == TOKEN_STREAM_IN_REASONING) out->behind = closing;
    bool may = mode == TOKEN_STREAM_MAY_THINK || mode == TOKEN_STREAM_BEHIND_TOOL;
    if (may && marked) {
        out->opens = opening;
        out->behind = closing;
    }
    return mode != TOKEN_STREAM_IN_REASONING || closing != TOKEN_STREAM_NO_TOKEN;
}

/* ---- the constraint's text ---- */

static void constraint_ask_write_text(struct json_writer *writer,
                                      const struct api_constraint *constraint,
                                      const struct token_stream_bound *bound) {
    json_writer_text(writer, "{");
    if (bound->opens != TOKEN_STREAM_NO_TOKEN)
        json_writer_text(writer, "\"opens\":\"" OPENING "\",");
    if (bound->behind != TOKEN_STREAM_NO_TOKEN)
        json_writer_text(writer, "\"behind\":\"" CLOSING "\",");
    if (constraint->at.count) {
        json_writer_text(writer, "\"at\":");
        json_writer_string(writer, constraint->at);
        json_writer_text(writer, ",");
    }
    json_writer_text(writer, "\"form\":");
    json_writer_bytes(writer, constraint->form);
    json_writer_text(writer, "}");
}

static enum status refuse(struct api_error *error, uint32_t http_status, const char *field,
                          const char *code, const char *message) {
    api_error_set(error, http_status, field, code, "'%s': %s", field, message);
    if (http_status == 503) error->retry_after_seconds = 1;
    return STATUS_INVALID;
}

static enum status constraint_ask_refuse_memory(struct api_error *error) {
    api_error_no_memory(error);
    return STATUS_INVALID;
}

static enum status constraint_ask_refuse_size(struct api_error *error, const char *field,
                                              size_t bytes) {
    api_error_set(error, 413, field, "request_too_large",
                  "'%s' has %zu bytes as a constraint; at most %d are allowed.", field, bytes,
                  LIMIT_CONSTRAINT_BYTES);
    return STATUS_INVALID;
}

/* Refuses `other`: after the constrained text only the model's own end token may follow. */
static enum status refuse_both(struct api_error *error, const char *field, const char *other) {
    api_error_set(error, 400, other, "unsupported_parameter",
                  "'%s' and '%s' do not go together: the form says where the answer ends.", field,
                  other);
    return STATUS_INVALID;
}

/* Stores the constraint's text in the leader's arena. */
static enum status constraint_ask_keep_text(struct request *leader,
                                            const struct api_constraint *constraint,
                                            const struct token_stream_bound *bound,
                                            struct api_error *error) {
    struct json_writer measure = {0};
    constraint_ask_write_text(&measure, constraint, bound);
    if (measure.count > LIMIT_CONSTRAINT_BYTES)
        return constraint_ask_refuse_size(error, constraint->field, measure.count);
    struct json_writer writer = {arena_take(&leader->arena, measure.count), measure.count, 0};
    if (!writer.out) return constraint_ask_refuse_memory(error);
    constraint_ask_write_text(&writer, constraint, bound);
    leader->asked.constraint = (struct bytes){writer.out, writer.count};
    leader->asked.constraint_field = constraint->field;
    return STATUS_OK;
}

/* ---- the verdict ---- */

static enum status ask_host(struct gateway *gateway, struct request *leader,
                            struct api_error *error) {
    struct tokenize_request ask = {
        .request = leader->id, .client = request_client(leader), .text = leader->asked.constraint};
    const char *field = leader->asked.constraint_field;
    enum status status =
        tokenize_queue_take(&gateway->constraints, &leader->waiting_constraint, &ask);
    if (status == STATUS_TOO_LARGE) return constraint_ask_refuse_size(error, field, ask.text.count);
    return status == STATUS_NO_MEMORY
               ? refuse(error, 503, field, "constraints_busy",
                        "too many constraints wait to be compiled. Try again later.")
               : status;
}

enum status constraint_ask_take(struct gateway *gateway, struct request *leader,
                                const struct api_request *parsed, struct api_error *error) {
    const struct tokenizer *tokenizer = gateway->options.tokenizer;
    const struct api_constraint *constraint = &parsed->constraint;
    const struct request_asked *asked = &leader->asked;
    struct token_stream_bound bound;
    if (!constraint->form.count || asked->prompt_only || asked->tokens_only) return STATUS_OK;
    if (!tokenizer)
        return refuse(error, 400, constraint->field, "unsupported_parameter",
                      "this checkpoint has no tokenizer, so its answers cannot be held to a form.");
    if (parsed->stop_token_count) return refuse_both(error, constraint->field, "stop_token_ids");
    if (parsed->ignore_eos) return refuse_both(error, constraint->field, "ignore_eos");
    if (!constraint_ask_find_bound(tokenizer, asked->mode, constraint->at, &bound))
        return refuse(error, 400, constraint->field, "unsupported_parameter",
                      "this model ends its thinking with no token of its own, so an answer that "
                      "thinks cannot be held to a form. Switch thinking off.");
    enum status status = constraint_ask_keep_text(leader, constraint, &bound, error);
    if (!status) status = ask_host(gateway, leader, error);
    if (status) return status;
    leader->constraint_pending = true;
    token_stream_bind(&leader->answered.words, &bound);
    return STATUS_OK;
}

enum status constraint_ask_verified(struct request *leader, const struct record_constrained *record,
                                    struct api_error *error) {
    static const char *const codes[CONSTRAINT_VERDICT_COUNT] = {
        [CONSTRAINT_INVALID] = "invalid_schema",
        [CONSTRAINT_UNSUPPORTED] = "unsupported_schema",
        [CONSTRAINT_TOO_LARGE] = "schema_too_large",
    };
    leader->constraint_pending = record->verdict != CONSTRAINT_HOLDS;
    if (!leader->constraint_pending) return STATUS_OK;
    if (record->verdict == CONSTRAINT_NO_MEMORY) return constraint_ask_refuse_memory(error);
    api_error_set(error, 400, leader->asked.constraint_field, codes[record->verdict], "'%s': %.*s",
                  leader->asked.constraint_field, (int)record->message_bytes,
                  constrained_message(record));
    return STATUS_INVALID;
}
