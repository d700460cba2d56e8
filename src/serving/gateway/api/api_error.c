/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_error.h"

#include "base/format.h"
#include "base/utf8.h"

static const char *api_error_type(uint32_t http_status) {
    if (http_status == 402) return "unknown_error"; /* as DeepSeek's API does */
    if (http_status == 429) return "rate_limit_error";
    return http_status >= 500 ? "server_error" : "invalid_request_error";
}

bool api_error_set(struct api_error *error, uint32_t http_status, const char *param,
                   const char *code, const char *format, ...) {
    *error = (struct api_error){.http_status = http_status, .code = code};
    if (param) format_text(error->param, sizeof error->param, "%s", param);
    va_list arguments;
    va_start(arguments, format);
    format_va(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return false;
}

void api_error_no_memory(struct api_error *error) {
    api_error_set(error, 503, NULL, "out_of_memory",
                  "The server has no memory left for this request. Try again later.");
    error->retry_after_seconds = 1;
}

void api_error_length(struct api_error *error, const struct api_length *length) {
    const char *about = length->at_least ? "at least " : "";
    unsigned long long prompt = length->prompt_tokens;
    api_error_set(
        error, 400, length->param, "context_length_exceeded",
        "%sThis model's maximum context length is %llu tokens%s. However, the request has "
        "%s%llu tokens: %s%llu in the prompt and at least 1 for the answer. Please reduce "
        "the length of the messages or of the prompt.",
        length->prefix, (unsigned long long)length->tokens_max,
        length->by_memory ? " here, as many as this server's KV memory holds" : "", about,
        prompt + 1, about, prompt);
}

void api_error_echo_size(struct api_error *error, const char *param, const char *prefix) {
    api_error_set(error, 413, param, "request_too_large",
                  "%sThe log probabilities of this prompt are more than one answer may hold. Send "
                  "a shorter one, ask for fewer, or stream them.",
                  prefix);
}

void api_error_draining(struct api_error *error) {
    api_error_set(error, 503, NULL, "draining", "The server is shutting down.");
    error->retry_after_seconds = 1;
}

void api_error_no_unit(struct api_error *error) {
    api_error_set(error, 503, NULL, "starting", /* the same code as in /health */
                  "No unit that serves the model has been there for too long. Try again later.");
    error->retry_after_seconds = 5;
}

static void write_or_null(struct json_writer *writer, const char *text) {
    if (!text || !*text) {
        json_writer_text(writer, "null");
        return;
    }
    /* A cut message may end inside a character, and messages quote clients' text. */
    utf8_write_repaired(writer, bytes_of(text));
}

void api_error_write(struct json_writer *writer, const struct api_error *error) {
    json_writer_text(writer, "{\"error\":{\"message\":");
    write_or_null(writer, error->message);
    json_writer_text(writer, ",\"type\":");
    write_or_null(writer, api_error_type(error->http_status));
    json_writer_text(writer, ",\"param\":");
    write_or_null(writer, error->param);
    json_writer_text(writer, ",\"code\":");
    write_or_null(writer, error->code);
    if (error->limit) {
        json_writer_text(writer, ",\"limit\":");
        write_or_null(writer, record_ledger_usage_limit_name(error->limit));
    }
    json_writer_text(writer, "}}");
}
