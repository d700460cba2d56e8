/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/chat_remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "base/number.h"
#include "base/tree.h"
#include "bench/load_events.h"
#include "host/http/http_client.h"
#include "programs/line_editor.h"

#define STALL_MS_MAX 600000u      /* a long prompt may take minutes until its first token */
#define WATCH_SECONDS 0.05        /* between looks for Ctrl-C */
#define REPLY_BYTES_MAX (1 << 20) /* of an answer that is not a stream */
#define TREE_BYTES_EACH 8         /* of a tree, for each byte of its text */
#define TREE_BYTES_MORE ((size_t)64 << 10)
#define HTTP_OK 200

struct chat_remote {
    struct http_client *client;
    struct http_client_options options;
    char *model;
    uint64_t answers;
    /* The current request. */
    const struct chat_sink *sink; /* NULL: the reply is kept */
    uint32_t http_status;
    enum http_end end;
    bool streamed, done, interrupted, failed;
    enum chat_end chat_end;
    struct load_events events;
    char *reply; /* [reply_bytes] of a reply that is not a stream, or an error within one */
    size_t reply_bytes;
};

/* ---- JSON ---- */

static const struct tree *parse(struct bytes text, char **memory_out) {
    struct arena arena;
    struct error error;
    const struct tree *root;
    size_t room = TREE_BYTES_EACH * text.count + TREE_BYTES_MORE;
    *memory_out = malloc(room);
    if (!*memory_out) return NULL;
    arena_over(&arena, *memory_out, room);
    return tree_parse_repeated(&arena, text, "reply", &root, &error) ? NULL : root;
}

static void keep_reply(struct chat_remote *remote, struct bytes text) {
    size_t count = text.count;
    if (remote->reply_bytes + count > REPLY_BYTES_MAX)
        count = REPLY_BYTES_MAX - remote->reply_bytes;
    char *grown = realloc(remote->reply, remote->reply_bytes + count + 1);
    if (!grown) return;
    memcpy(grown + remote->reply_bytes, text.data, count);
    remote->reply = grown;
    remote->reply_bytes += count;
    grown[remote->reply_bytes] = 0;
}

/* Handles one event of the stream. */
static void take_event(void *context, struct bytes data) {
    struct chat_remote *remote = context;
    char *memory;
    struct bytes text, reason;
    if (bytes_equal(data, BYTES_LITERAL("[DONE]"))) {
        remote->done = true;
        return;
    }
    const struct tree *root = parse(data, &memory);
    const struct tree *choice = tree_at(tree_member(root, "choices"), 0);
    const struct tree *delta = tree_member(choice, "delta");
    if (tree_member(root, "error") || !root) {
        remote->failed = true;
        remote->reply_bytes = 0;
        keep_reply(remote, data);
    }
    if (tree_get_string(tree_member(delta, "reasoning_content"), &text) ||
        tree_get_string(tree_member(delta, "reasoning"), &text))
        remote->sink->push(remote->sink->context, ANSWER_THOUGHT, text);
    if (tree_get_string(tree_member(delta, "content"), &text))
        remote->sink->push(remote->sink->context, ANSWER_TEXT, text);
    if (tree_get_string(tree_member(choice, "finish_reason"), &reason))
        remote->chat_end =
            bytes_equal(reason, BYTES_LITERAL("length")) ? CHAT_END_LENGTH : CHAT_END_STOP;
    free(memory);
}

/* Handles a comment of the stream, which may describe the wait. The server is not trusted: only
 * numbers of its text are shown. */
static void take_comment(void *context, struct bytes comment) {
    struct chat_remote *remote = context;
    char text[64], shown[64];
    unsigned ready = 0, total = 0, ahead;
    format_text(text, sizeof text, "%.*s", (int)min_u64(comment.count, 60), comment.data);
    if (sscanf(text, " prompt %9u of %9u", &ready, &total) == 2 && ready < total) {
        chat_report_prompt(remote->sink, ready, total);
    } else if (sscanf(text, " waiting, %9u", &ahead) == 1) {
        format_text(shown, sizeof shown, "In the server's queue: %u%s ahead", ahead,
                    strstr(text, " or more ") ? " or more" : "");
        remote->sink->wait(remote->sink->context, shown);
    }
}

/* ---- the client's callbacks ---- */

static void on_head(void *context, uint32_t connection, uint32_t http_status) {
    struct chat_remote *remote = context;
    remote->http_status = http_status;
    remote->streamed = remote->sink && http_status == HTTP_OK;
}

static void on_data(void *context, uint32_t connection, struct bytes data) {
    struct chat_remote *remote = context;
    if (!remote->streamed)
        keep_reply(remote, data);
    else if (load_events_push(&remote->events, data, take_event, remote) != STATUS_OK)
        remote->failed = true;
}

static void on_end(void *context, uint32_t connection, enum http_end end) {
    struct chat_remote *remote = context;
    remote->end = end;
    http_client_stop(remote->client);
}

static void on_wake(void *context) {
    struct chat_remote *remote = context;
    remote->interrupted = line_editor_interrupted();
    if (remote->interrupted)
        http_client_stop(remote->client);
    else
        http_client_wake_in(remote->client, WATCH_SECONDS);
}

/* ---- requests ---- */

/* Describes a request that failed, with the server's own words if it had some. */
static enum status describe_failure(struct chat_remote *remote, struct error *error) {
    static const char *const ends[HTTP_END_COUNT] = {
        [HTTP_END_NO_CONNECTION] = "no connection; is the server running?",
        [HTTP_END_BROKEN] = "the connection broke before the end",
        [HTTP_END_TIMEOUT] = "nothing was received for 10 minutes",
    };
    char *memory = NULL, words[1024], visible[FORMAT_SAFE_BYTES(sizeof words)];
    const char *name = http_client_name(remote->client);
    if (remote->end != HTTP_END_WHOLE)
        return error_set(error, STATUS_IO, "%s: %s", name,
                         ends[remote->end] ? ends[remote->end] : "the request failed");
    struct bytes reply = {remote->reply ? remote->reply : "", remote->reply_bytes}, message = reply;
    const struct tree *root = parse(reply, &memory);
    const struct tree *inner = tree_member(root, "error");
    if (!tree_get_string(tree_member(inner, "message"), &message))
        (void)tree_get_string(inner, &message);
    format_text(words, sizeof words, "%.*s", (int)min_u64(message.count, 400), message.data);
    format_visible(visible, sizeof visible, words);
    free(memory);
    return error_set(error, STATUS_IO, "%s: status %u: %.600s", name, remote->http_status,
                     *visible ? visible : "the reply is not that of a chat server");
}

/* Performs one request. An interrupted one closes the connection, which stops the server. */
static enum status perform(struct chat_remote *remote, const char *path, struct bytes body,
                           const struct chat_sink *sink, struct error *error) {
    remote->sink = sink;
    remote->reply_bytes = 0;
    remote->http_status = 0;
    remote->end = HTTP_END_NO_CONNECTION;
    remote->streamed = remote->done = remote->interrupted = remote->failed = false;
    load_events_reset(&remote->events);
    if (!remote->client) {
        enum status status = http_client_open(&remote->options, &remote->client, error);
        if (status) return status;
    }
    if (http_client_send(remote->client, 0, path, body) != STATUS_OK)
        return error_set(error, STATUS_IO, "%s: cannot open a socket",
                         http_client_name(remote->client));
    http_client_wake_in(remote->client, WATCH_SECONDS);
    http_client_run(remote->client);
    enum status status = STATUS_OK;
    bool whole = remote->end == HTTP_END_WHOLE && remote->http_status == HTTP_OK;
    if (remote->interrupted || (whole && !remote->failed))
        status = STATUS_OK;
    else
        status = describe_failure(remote, error);
    if (remote->interrupted || status) {
        http_client_close(remote->client);
        remote->client = NULL;
    }
    return status;
}

static void write_number(struct json_writer *writer, const char *name, double value, bool given) {
    char digits[32];
    if (!given) return;
    format_text(digits, sizeof digits, "%.17g", value);
    json_writer_print(writer, ",\"%s\":%s", name, digits);
}

/* "ID:BIAS,ID:BIAS" as the API's object. */
static void write_biases(struct json_writer *writer, const char *biases) {
    json_writer_text(writer, ",\"logit_bias\":{\"");
    for (const char *at = biases; *at; at++) {
        if (*at == ':')
            json_writer_text(writer, "\":");
        else if (*at == ',')
            json_writer_text(writer, ",\"");
        else if ((uint8_t)*at < 0x80)
            json_writer_escaped(writer, (struct bytes){at, 1});
    }
    json_writer_text(writer, "}");
}

/* The request's body. What the user has not set is left to the server. */
static void write_body(struct json_writer *writer, const struct chat_remote *remote,
                       const struct chat_values *values,
                       const struct chat_conversation *conversation) {
    const struct sampler_values *sampler = &values->sampler;
    json_writer_text(writer, "{\"model\":");
    json_writer_string(writer, bytes_of(remote->model));
    json_writer_text(writer, ",\"stream\":true,");
    conversation_write(writer, conversation);
    write_number(writer, "temperature", values->temperature, values->temperature >= 0);
    write_number(writer, "top_p", values->top_p, values->top_p >= 0);
    write_number(writer, "min_p", sampler->min_p, sampler->min_p > 0);
    write_number(writer, "frequency_penalty", sampler->frequency_penalty,
                 sampler->frequency_penalty < 0 || sampler->frequency_penalty > 0);
    write_number(writer, "presence_penalty", sampler->presence_penalty,
                 sampler->presence_penalty < 0 || sampler->presence_penalty > 0);
    write_number(writer, "repetition_penalty", sampler->repetition_penalty,
                 sampler->repetition_penalty < 1 || sampler->repetition_penalty > 1);
    if (values->top_k) json_writer_print(writer, ",\"top_k\":%lu", values->top_k);
    if (sampler->min_tokens) json_writer_print(writer, ",\"min_tokens\":%lu", sampler->min_tokens);
    if (values->max_new) json_writer_print(writer, ",\"max_tokens\":%lu", values->max_new);
    if (values->seed) json_writer_print(writer, ",\"seed\":%lu", values->seed + remote->answers);
    if (sampler->logit_bias) write_biases(writer, sampler->logit_bias);
    json_writer_text(writer, "}");
}

enum status chat_remote_answer(struct chat_remote *remote, const struct chat_values *values,
                               const struct chat_conversation *conversation,
                               const struct chat_sink *sink, enum chat_end *end_out,
                               struct error *error) {
    struct json_writer size = {0};
    write_body(&size, remote, values, conversation);
    struct json_writer body = {.out = malloc(size.count), .room = size.count};
    if (!body.out) return error_set(error, STATUS_NO_MEMORY, "no memory for the request");
    write_body(&body, remote, values, conversation);
    remote->answers++;
    remote->chat_end = CHAT_END_STOP;
    enum status status =
        perform(remote, "/v1/chat/completions", (struct bytes){body.out, body.count}, sink, error);
    free(body.out);
    if (!status) *end_out = remote->interrupted ? CHAT_END_INTERRUPTED : remote->chat_end;
    return status;
}

/* ---- opening ---- */

static enum status chat_remote_find_model(struct chat_remote *remote, struct error *error) {
    struct bytes name;
    char *memory = NULL;
    enum status status = perform(remote, "/v1/models", (struct bytes){0}, NULL, error);
    if (status) return status;
    struct bytes reply = {remote->reply ? remote->reply : "", remote->reply_bytes};
    const struct tree *list = tree_member(parse(reply, &memory), "data");
    if (tree_get_string(tree_member(tree_at(list, 0), "id"), &name))
        remote->model = strndup(name.data, name.count);
    free(memory);
    if (remote->model) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%s/v1/models names no model: give its name as --model",
                     http_client_name(remote->client));
}

enum status chat_remote_open(const struct chat_values *values, struct chat_remote **remote_out,
                             struct error *error) {
    struct chat_remote *remote = calloc(1, sizeof *remote);
    if (!remote) return error_set(error, STATUS_NO_MEMORY, "no memory for the chat");
    remote->options = (struct http_client_options){
        .url = values->url,
        .bearer = getenv("FATHOM_API_KEY"),
        .connections_max = 1,
        .stall_ms_max = STALL_MS_MAX,
        .head = on_head,
        .data = on_data,
        .end = on_end,
        .wake = on_wake,
        .context = remote,
    };
    remote->events.comment = take_comment;
    enum status status = http_client_open(&remote->options, &remote->client, error);
    if (!status && values->run.model)
        remote->model = strdup(values->run.model);
    else if (!status)
        status = chat_remote_find_model(remote, error);
    if (status)
        chat_remote_close(remote);
    else
        *remote_out = remote;
    return status;
}

void chat_remote_close(struct chat_remote *remote) {
    if (!remote) return;
    if (remote->client) http_client_close(remote->client);
    load_events_free(&remote->events);
    free(remote->model);
    free(remote->reply);
    free(remote);
}
