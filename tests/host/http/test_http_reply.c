/* SPDX-License-Identifier: Apache-2.0
 * Protects the heads of answers: what each kind of answer tells, what a HEAD leaves out, and that
 * nothing is said of a connection but whether it ends.
 */
#include "host/http/http_reply.h"

#include <event2/buffer.h>

#include "base/check.h"
#include "contract/answer_header.h"
#include "test_case.h"

static char said[4096];

static const char *read_all(struct evbuffer *out) {
    int count = evbuffer_remove(out, said, sizeof said - 1);
    check(count >= 0);
    said[count] = '\0';
    return said;
}

static struct http_reply open_reply(void) {
    return (struct http_reply){.out = evbuffer_new(), .request_name = "job-7"};
}

static void assert_says(const char *text, bool expected) {
    if ((strstr(said, text) != NULL) != expected) fail_msg("%s in: %s", text, said);
}

TEST(a_refusal_is_an_error_of_the_api) {
    struct http_reply reply = open_reply();
    http_reply_error(&reply, 503, "busy");
    read_all(reply.out);
    assert_int_equal(strncmp(said, "HTTP/1.1 503 Service Unavailable\r\nDate: ", 40), 0);
    assert_says("\r\nX-Request-Id: job-7\r\n", true);
    assert_says("\r\nRequest-Id: job-7\r\n", true);
    assert_says("Retry-After: 1\r\n", true);
    assert_says("Access-Control", false);
    assert_says("\r\n\r\n{\"error\":{\"message\":\"busy\",\"type\":\"server_error\"", true);
    static const struct {
        uint32_t status;
        const char *type;
    } theirs[] = {{503, "overloaded_error"},
                  {505, "api_error"},
                  {413, "request_too_large"},
                  {403, "permission_error"},
                  {408, "invalid_request_error"}};
    reply.speaks_anthropic = true;
    for (size_t i = 0; i < ARRAY_COUNT(theirs); i++) {
        char body[128];
        snprintf(body, sizeof body,
                 "\r\n\r\n{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"no\"}}",
                 theirs[i].type);
        http_reply_error(&reply, theirs[i].status, "no");
        read_all(reply.out);
        assert_says(body, true);
    }
    evbuffer_free(reply.out);
}

/* RFC 9110, 12.5.3: and no other 415 says so. */
TEST(codings_are_named_where_one_is_not_known) {
    struct http_reply reply = open_reply();
    http_reply_error(&reply, 415, "no");
    read_all(reply.out);
    assert_says("Accept-Encoding", false);
    reply.knows_no_coding = true;
    http_reply_error(&reply, 415, "no");
    read_all(reply.out);
    assert_says("HTTP/1.1 415 Unsupported Media Type\r\n", true);
    assert_says("\r\nAccept-Encoding: gzip, deflate, zstd\r\n", true);
    http_reply_error(&reply, 413, "no");
    read_all(reply.out);
    assert_says("Accept-Encoding", false);
    evbuffer_free(reply.out);
}

TEST(an_answer_says_whether_its_connection_ends) {
    struct http_reply reply = open_reply();
    reply.idle_s = 75;
    http_reply_error(&reply, 400, "no");
    read_all(reply.out);
    assert_says("Connection: keep-alive\r\nKeep-Alive: timeout=75\r\n", true);
    reply.closes = true;
    http_reply_error(&reply, 400, "no");
    read_all(reply.out);
    assert_says("Connection: close\r\n", true);
    assert_says("keep-alive", false);
    assert_says("Keep-Alive", false);
    evbuffer_free(reply.out);
}

TEST(a_page_that_is_known_is_not_sent_again) {
    struct http_asset page = {"/", "text/html", BYTES_LITERAL("<p>")};
    struct http_reply reply = open_reply();
    http_reply_asset(&reply, &page, BYTES_LITERAL("\"0\""));
    read_all(reply.out);
    assert_says("Content-Length: 3\r\n\r\n<p>", true);
    const char *tag = strstr(said, "ETag: ") + 6;
    char known[32] = "";
    memcpy(known, tag, strcspn(tag, "\r"));
    reply.without_body = true;
    http_reply_asset(&reply, &page, BYTES_LITERAL(""));
    read_all(reply.out);
    assert_says("Content-Length: 3\r\n\r\n", true);
    assert_says("<p>", false);
    reply.without_body = false;
    http_reply_asset(&reply, &page, bytes_of(known));
    read_all(reply.out);
    assert_says("HTTP/1.1 304 ", true);
    assert_says("Content-Length", false);
    evbuffer_free(reply.out);
}

TEST(other_sites_learn_what_they_may_ask_and_read) {
    struct http_reply reply = open_reply();
    reply.lets_pages_in = true;
    reply.allow_origin = BYTES_LITERAL("https://a.example");
    http_reply_options(&reply);
    read_all(reply.out);
    assert_says("HTTP/1.1 204 ", true);
    assert_says("Vary: Origin\r\nAccess-Control-Allow-Origin: https://a.example\r\n", true);
    char *exposed = strstr(said, "\r\nAccess-Control-Expose-Headers: ");
    assert_non_null(exposed);
    for (int i = 0; i < ANSWER_HEADER_COUNT; i++)
        assert_non_null(strstr(exposed, answer_header_name((enum answer_header)i)));
    assert_says("Access-Control-Allow-Methods: GET, POST, OPTIONS\r\n", true);
    reply.allow_origin = BYTES_LITERAL(""); /* no page asks, or one that is at home here */
    http_reply_error(&reply, 400, "no");
    read_all(reply.out);
    assert_says("Vary: Origin\r\n", true);
    assert_says("Access-Control", false);
    evbuffer_free(reply.out);
}

TEST(what_the_gateway_says_keeps_its_headers) {
    struct record_respond fixed = {.http_status = 405,
                                   .allow = 1u << HTTP_GET,
                                   .retry_after_seconds = 7,
                                   .header_bytes = 6,
                                   .body_bytes = 2};
    struct record_respond *answer = calloc(1, record_bytes(RECORD_RESPOND, &fixed));
    check(answer);
    *answer = fixed;
    record_set_head(answer, RECORD_RESPOND);
    struct http_reply reply = open_reply();
    memcpy(respond_headers(answer), "A: b\r\n", 6);
    memcpy(respond_body(answer), "{}", 2);
    http_reply_respond(&reply, answer);
    read_all(reply.out);
    assert_says("Retry-After: 7\r\nAllow: GET, HEAD\r\nA: b\r\nContent-Type: application/json",
                true);
    assert_says("\r\n\r\n{}", true);
    free(answer);
    evbuffer_free(reply.out);
}

TEST(a_stream_has_a_head_without_a_length) {
    struct record_stream_begin begin = {.content_type = CONTENT_EVENTS};
    record_set_head(&begin, RECORD_STREAM_BEGIN);
    struct http_reply reply = open_reply();
    http_reply_stream(&reply, &begin, true);
    read_all(reply.out);
    assert_says("Content-Type: text/event-stream; charset=utf-8\r\n", true);
    assert_says("Transfer-Encoding: chunked\r\n\r\n", true);
    assert_says("Content-Length", false);
    http_reply_stream(&reply, &begin, false);
    read_all(reply.out);
    assert_says("Transfer-Encoding", false);
    evbuffer_free(reply.out);
}
