/* SPDX-License-Identifier: Apache-2.0 */
#include "host/http/http_reply.h"

#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/check.h"
#include "base/checksum.h"
#include "base/json_writer.h"
#include "contract/answer_header.h"
#include "host/http/content_decoder.h"
#include "host/http/http_message.h"

/* ---- common parts ---- */

static void http_reply_set_header(const struct http_reply *reply, enum answer_header header,
                                  const char *value) {
    evbuffer_add_printf(reply->out, "%s: %s\r\n", answer_header_name(header), value);
}

static void http_reply_set_number(const struct http_reply *reply, enum answer_header header,
                                  uint32_t value) {
    evbuffer_add_printf(reply->out, "%s: %" PRIu32 "\r\n", answer_header_name(header), value);
}

/* Writes the CORS headers, which allow pages of another origin to read the response. */
static void write_cors_headers(const struct http_reply *reply) {
    if (!reply->lets_pages_in) return;
    evbuffer_add_printf(reply->out, "Vary: Origin\r\n");
    if (!reply->allow_origin.count) return;
    evbuffer_add_printf(reply->out, "Access-Control-Allow-Origin: %.*s\r\n",
                        (int)reply->allow_origin.count, reply->allow_origin.data);
    for (int i = 0; i < ANSWER_HEADER_COUNT; i++)
        evbuffer_add_printf(reply->out, "%s%s", i ? ", " : "Access-Control-Expose-Headers: ",
                            answer_header_name((enum answer_header)i));
    evbuffer_add_printf(reply->out, "\r\n");
}

static void begin(const struct http_reply *reply, uint32_t status) {
    char date[64];
    time_t now = time(NULL);
    struct tm calendar;
    gmtime_r(&now, &calendar);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &calendar);
    evbuffer_add_printf(reply->out, "HTTP/1.1 %" PRIu32 " %s\r\nDate: %s\r\n", status,
                        http_message_phrase(status), date);
    http_reply_set_header(reply, ANSWER_HEADER_REQUEST_ID, reply->request_name);
    http_reply_set_header(reply, ANSWER_HEADER_REQUEST_ID_PLAIN, reply->request_name);
    if (reply->closes)
        evbuffer_add_printf(reply->out, "Connection: close\r\n");
    else
        evbuffer_add_printf(reply->out,
                            "Connection: keep-alive\r\nKeep-Alive: timeout=%" PRIu32 "\r\n",
                            reply->idle_s);
    write_cors_headers(reply);
}

static void end(const struct http_reply *reply, const char *content_type, struct bytes body) {
    evbuffer_add_printf(reply->out,
                        "Content-Type: %s\r\nX-Content-Type-Options: nosniff\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        content_type, body.count);
    if (!reply->without_body) evbuffer_add(reply->out, body.data, body.count);
}

/* ---- responses of the server itself ---- */

static const char *anthropic_type(uint32_t status) {
    switch (status) {
    case 403:
        return "permission_error";
    case 413:
        return "request_too_large";
    case 503:
        return "overloaded_error";
    default:
        return status >= 500 ? "api_error" : "invalid_request_error";
    }
}

void http_reply_error(const struct http_reply *reply, uint32_t status, const char *message) {
    char body[512];
    struct json_writer writer = {.out = body, .room = sizeof body};
    if (reply->speaks_anthropic)
        json_writer_print(&writer,
                          "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"%s\"}}",
                          anthropic_type(status), message);
    else
        json_writer_print(
            &writer,
            "{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,\"code\":null}}",
            message, status >= 500 ? "server_error" : "invalid_request_error");
    check(json_writer_fits(&writer));
    begin(reply, status);
    if (status == 503) http_reply_set_number(reply, ANSWER_HEADER_RETRY_AFTER, 1);
    if (status == 415 && reply->knows_no_coding) /* not if the media type is the reason */
        http_reply_set_header(reply, ANSWER_HEADER_ACCEPT_ENCODING, CONTENT_DECODER_NAMES);
    /* the methods for an embedded page */
    if (status == 405) http_reply_set_header(reply, ANSWER_HEADER_ALLOW, "GET, HEAD");
    end(reply, "application/json", (struct bytes){body, writer.count});
}

void http_reply_asset(const struct http_reply *reply, const struct http_asset *asset,
                      struct bytes known) {
    char tag[32];
    snprintf(tag, sizeof tag, "\"%016" PRIx64 "\"",
             checksum_of(asset->content.data, asset->content.count));
    bool same = bytes_equal(known, bytes_of(tag));
    begin(reply, same ? 304 : 200);
    evbuffer_add_printf(
        reply->out,
        "ETag: %s\r\nCache-Control: no-cache\r\nReferrer-Policy: no-referrer\r\n"
        "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
        "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify\r\n",
        tag);
    if (same)
        evbuffer_add_printf(reply->out, "\r\n");
    else
        end(reply, asset->type, asset->content);
}

void http_reply_options(const struct http_reply *reply) {
    begin(reply, 204);
    http_reply_set_header(reply, ANSWER_HEADER_ALLOW, "GET, HEAD, POST, OPTIONS");
    evbuffer_add_printf(reply->out, "Access-Control-Allow-Methods: GET, POST, OPTIONS\r\n"
                                    "Access-Control-Allow-Headers: *, Authorization\r\n"
                                    "Access-Control-Max-Age: 86400\r\n\r\n");
}

/* ---- responses of the gateway ---- */

static const char *type_name(enum content_type type) {
    static const char *const names[CONTENT_TYPE_COUNT] = {
        [CONTENT_JSON] = "application/json",
        [CONTENT_TEXT] = "text/plain; charset=utf-8",
        [CONTENT_METRICS] = "text/plain; version=0.0.4; charset=utf-8",
        [CONTENT_EVENTS] = "text/event-stream; charset=utf-8",
        [CONTENT_LINES] = "application/x-ndjson",
    };
    check(type < CONTENT_TYPE_COUNT);
    return names[type];
}

void http_reply_respond(const struct http_reply *reply, const struct record_respond *answer) {
    begin(reply, answer->http_status);
    evbuffer_add_printf(reply->out, "Cache-Control: no-store\r\n");
    if (answer->retry_after_seconds)
        http_reply_set_number(reply, ANSWER_HEADER_RETRY_AFTER, answer->retry_after_seconds);
    bool gets = answer->allow & 1u << HTTP_GET, options = reply->lets_pages_in;
    if (answer->allow)
        http_reply_set_header(reply, ANSWER_HEADER_ALLOW,
                              gets      ? options ? "GET, HEAD, OPTIONS" : "GET, HEAD"
                              : options ? "POST, OPTIONS"
                                        : "POST");
    if (answer->http_status == 401)
        http_reply_set_header(reply, ANSWER_HEADER_AUTHENTICATE, "Bearer");
    evbuffer_add(reply->out, respond_headers(answer), answer->header_bytes);
    end(reply, type_name(answer->content_type),
        (struct bytes){respond_body(answer), answer->body_bytes});
}

void http_reply_stream(const struct http_reply *reply, const struct record_stream_begin *record,
                       bool chunked) {
    begin(reply, 200);
    evbuffer_add(reply->out, stream_headers(record), record->header_bytes);
    evbuffer_add_printf(reply->out,
                        "Content-Type: %s\r\n"
                        "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
                        "X-Content-Type-Options: nosniff\r\n%s\r\n",
                        type_name(record->content_type),
                        chunked ? "Transfer-Encoding: chunked\r\n" : "");
}
